// Selects the kernel table: what this build has, what the CPU and the operating system support, and what the user asks
// for.
#include <cstdlib>
#include <string>
#include <vector>

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/tables.h"
#include "base/error.h"

#ifdef TANDEM_KERNELS_X86
#include <cpuid.h>
#endif
#if defined(TANDEM_KERNELS_X86) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#if defined(TANDEM_KERNELS_ARM) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace tandem::cpu {
namespace {

#ifdef TANDEM_KERNELS_X86
// Clang 14's __builtin_cpu_supports does not know this one. It uses AVX registers, so the check for AVX2 covers the
// operating system's part.
bool has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

bool has_avxvnni() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & 1u << 4) != 0;
}

// Tile registers are 8 KB that Linux grants to a process on request; all its threads may use them from then on.
bool may_use_amx() {
#ifdef __linux__
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned kTile = 1u << 24, kInt8 = 1u << 25;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0 || (edx & kTile) == 0 || (edx & kInt8) == 0) return false;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}
#endif

#ifdef TANDEM_KERNELS_ARM
// The CPU features that Linux (Android too) reports. The bits are part of its ABI; older headers do not name them. A
// system with different kinds of cores reports what all of them support. Elsewhere, what the compiler was told to
// assume.
struct ArmFeatures {
  bool dotprod = false, i8mm = false;
};
ArmFeatures arm_features() {
  ArmFeatures features;
#ifdef __linux__
  constexpr unsigned long kDotprod = 1ul << 20;  // HWCAP_ASIMDDP
  constexpr unsigned long kI8mm = 1ul << 13;     // HWCAP2_I8MM
  features.dotprod = (::getauxval(AT_HWCAP) & kDotprod) != 0;
  features.i8mm = (::getauxval(AT_HWCAP2) & kI8mm) != 0;
#else
#ifdef __ARM_FEATURE_DOTPROD
  features.dotprod = true;
#endif
#ifdef __ARM_FEATURE_MATMUL_INT8
  features.i8mm = true;
#endif
#endif
  return features;
}
#endif

std::vector<const KernelTable*> find_available() {
  std::vector<const KernelTable*> tables = {&portable_kernels()};
#ifdef TANDEM_KERNELS_X86
  // These also check xgetbv: whether the operating system saves the larger registers.
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  if (avx2) tables.push_back(&kAvx2Kernels);
  if (avx2 && has_avxvnni()) tables.push_back(&kAvxVnniKernels);
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("bmi2")) {
    tables.push_back(&kAvx512VnniKernels);
    if (may_use_amx()) tables.push_back(&kAmxKernels);
  }
#endif
#ifdef TANDEM_KERNELS_ARM
  const ArmFeatures features = arm_features();
  tables.push_back(&kNeonKernels);
  if (features.dotprod) tables.push_back(&kDotprodKernels);
  if (features.dotprod && features.i8mm) tables.push_back(&kI8mmKernels);
#endif
  return tables;
}

}  // namespace

std::span<const KernelTable* const> available_kernels() {
  static const std::vector<const KernelTable*> tables = find_available();
  return tables;
}

Result<const KernelTable*> choose_kernels() {
  const char* wanted = std::getenv("TANDEM_ISA");
  if (wanted == nullptr || *wanted == '\0') return available_kernels().back();
  std::string names;
  for (const KernelTable* table : available_kernels()) {
    if (table->isa == wanted) return table;
    names += (names.empty() ? "" : ", ") + std::string(table->isa);
  }
  return invalid_argument("TANDEM_ISA is '{}', which this CPU or build cannot run; set it to one of: {}, or unset it",
                          wanted, names);
}

}  // namespace tandem::cpu

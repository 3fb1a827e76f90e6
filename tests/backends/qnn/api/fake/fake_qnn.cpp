// A library that looks like libQnnHtp.so at load and is wrong in one way, chosen by the build. It prints a line when it
// is loaded, as the real one does. None of its functions does anything.
#include <cstdio>
#include <cstring>

#include "backends/qnn/api/abi_tables.h"

#ifndef FAKE_CORE_MAJOR
#define FAKE_CORE_MAJOR 2
#endif
#ifndef FAKE_CORE_MINOR
#define FAKE_CORE_MINOR 40
#endif
#ifndef FAKE_HTP_MINOR
#define FAKE_HTP_MINOR 51
#endif
#ifndef FAKE_BACKEND_ID
#define FAKE_BACKEND_ID 6
#endif
#ifndef FAKE_RESULT
#define FAKE_RESULT 0
#endif

namespace abi = tandem::qnn::abi;

namespace {

struct PrintsAtLoad {
  PrintsAtLoad() {
    std::puts("FAKENATIVE loaded");
    std::fflush(stdout);
  }
} prints_at_load;

[[maybe_unused]] abi::ErrorHandle refuse() { return 1000; }

abi::CoreProvider make_provider() {
  abi::CoreProvider provider = {};
  provider.backend_id = FAKE_BACKEND_ID;
  provider.name = "FAKE";
  provider.core_version = {FAKE_CORE_MAJOR, FAKE_CORE_MINOR, 0};
  provider.backend_version = {5, FAKE_HTP_MINOR, 0};
#ifndef FAKE_NO_FUNCTIONS
  auto* slots = reinterpret_cast<unsigned char*>(&provider.functions);
  abi::ErrorHandle (*const function)() = refuse;
  for (size_t i = 0; i < sizeof(provider.functions) / sizeof(function); ++i) {
    std::memcpy(slots + i * sizeof(function), &function, sizeof(function));
  }
#endif
  return provider;
}

}  // namespace

#ifdef FAKE_NO_SYMBOL
extern "C" int something_else() { return 0; }
#else
extern "C" abi::ErrorHandle QnnInterface_getProviders(const abi::CoreProvider*** providers, uint32_t* count) {
  static const abi::CoreProvider provider = make_provider();
  static const abi::CoreProvider* list[] = {&provider};
#ifdef FAKE_NO_PROVIDER
  *providers = nullptr;
  *count = 0;
#else
  *providers = list;
  *count = 1;
#endif
  return FAKE_RESULT;
}
#endif

// Decoding allocates nothing: every heap allocation is counted while a TokenRunner computes tokens.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "runtime/loaded_engine.h"
#include "runtime/token_runner.h"
#include "support/compiled_model.h"

namespace {

std::atomic<bool> g_counting{false};
std::atomic<int64_t> g_allocations{0};

void count() {
  if (g_counting.load(std::memory_order_relaxed)) g_allocations.fetch_add(1, std::memory_order_relaxed);
}

void* allocate(size_t size, size_t alignment) {
  count();
  void* memory = alignment <= alignof(std::max_align_t)
                     ? std::malloc(size == 0 ? 1 : size)
                     : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory == nullptr) std::abort();
  return memory;
}

}  // namespace

void* operator new(size_t size) { return allocate(size, 1); }
void* operator new[](size_t size) { return allocate(size, 1); }
void* operator new(size_t size, std::align_val_t a) { return allocate(size, static_cast<size_t>(a)); }
void* operator new[](size_t size, std::align_val_t a) { return allocate(size, static_cast<size_t>(a)); }
void* operator new(size_t size, const std::nothrow_t&) noexcept { return allocate(size, 1); }
void* operator new[](size_t size, const std::nothrow_t&) noexcept { return allocate(size, 1); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
void operator delete[](void* p, size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, size_t, std::align_val_t) noexcept { std::free(p); }

#if !defined(__SANITIZE_ADDRESS__) && defined(__GLIBC__)
// C's functions too, except where a sanitizer has replaced them.
#define TANDEM_COUNTS_MALLOC 1
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void* malloc(size_t size) {
  count();
  return __libc_malloc(size);
}
void* calloc(size_t n, size_t size) {
  count();
  return __libc_calloc(n, size);
}
void* realloc(void* p, size_t size) {
  count();
  return __libc_realloc(p, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  count();
  return __libc_memalign(alignment, size);
}
}
#endif

namespace tandem {
namespace {

const std::atomic<bool> kNeverStop{false};

int64_t allocations_while(const auto& work) {
  g_allocations = 0;
  g_counting = true;
  work();
  g_counting = false;
  return g_allocations;
}

// The counter works: a test that cannot fail proves nothing.
TEST(Allocations, AreSeen) {
  EXPECT_GE(allocations_while([] { delete new volatile int(1); }), 1);
  EXPECT_GE(allocations_while([] {
              std::vector<int> v(100, 1);
              volatile int use = v[50];
              (void)use;
            }),
            1);
#ifdef TANDEM_COUNTS_MALLOC
  EXPECT_GE(allocations_while([] {
              void* volatile p = std::malloc(100);
              std::free(p);
            }),
            1);
#endif
}

struct Case {
  const char* checkpoint;
  const char* recipe;
};

class Decoding : public testing::TestWithParam<Case> {};

TEST_P(Decoding, AllocatesNothingAfterTheFirstTokens) {
  const bool demo = std::string_view(GetParam().checkpoint) == "demo";
  const auto path = test::compiled({.checkpoint = demo ? test::demo_dir() : test::golden_dir(GetParam().checkpoint),
                                    .recipe = GetParam().recipe,
                                    .prefill = {8, 32},
                                    .context = 128});
  auto engine = LoadedEngine::load(path, {.threads = 2});
  ASSERT_TRUE(engine.ok()) << engine.error().message;
  ASSERT_TRUE((*engine)->verify_weights().ok());
  auto runner = TokenRunner::create((*engine)->program(), (*engine)->table());
  ASSERT_TRUE(runner.ok()) << runner.error().message;
  const std::vector<int32_t> prompt(40, 7);
  float sum = 0.0f;
  const TokenRunner::RowCallback add = [&](size_t, std::span<const float> logits) {
    sum += logits[0];
    return ok_status();
  };
  bool ok = runner->feed(prompt, TokenRunner::Logits::kLast, kNeverStop, add).ok();
  int32_t token = 3;
  const auto decode = [&](int count, TokenRunner::Logits wanted) {
    for (int i = 0; i < count && ok; ++i) {
      ok = runner->feed({&token, 1}, wanted, kNeverStop, add).ok();
      token = (token + 5) % 64;
    }
  };
  decode(1, TokenRunner::Logits::kLast);
  EXPECT_EQ(allocations_while([&] { decode(30, TokenRunner::Logits::kLast); }), 0);
  ASSERT_TRUE(runner->computes_argmax());
  EXPECT_EQ(allocations_while([&] { decode(30, TokenRunner::Logits::kArgmax); }), 0);
  // Nor does another prompt, once each method has run.
  runner->rewind(0);
  EXPECT_EQ(
      allocations_while([&] { ok = ok && runner->feed(prompt, TokenRunner::Logits::kAll, kNeverStop, add).ok(); }), 0);
  ASSERT_TRUE(ok);
  EXPECT_TRUE(std::isfinite(sum));
}

INSTANTIATE_TEST_SUITE_P(
    Files, Decoding,
    testing::Values(Case{"demo", "w4"}, Case{"qwen3", "fp32"}, Case{"llama3_2", "fp16"}, Case{"qwen2_5", "w8"},
                    Case{"smollm2", R"({"base": "w4", "kv": "u8", "mask": "u16", "logits": "u16"})"}),
    [](const auto& param_info) { return std::string(param_info.param.checkpoint); });

}  // namespace
}  // namespace tandem

// Buffers by metadata: one per state name, one per input and output of each method.
#include "backends/interface/method_memory.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "support/small_graph.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__has_feature)
// Refuse sizes that are too large as malloc does, instead of ending the program.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }
#endif

namespace tandem {
namespace method_memory_test {

class FakeProgram final : public Program {
 public:
  explicit FakeProgram(std::vector<ir::Graph> graphs) : graphs_(std::move(graphs)) {}
  size_t method_count() const override { return graphs_.size(); }
  const ir::Graph& method(size_t index) const override { return graphs_[index]; }
  Result<std::unique_ptr<ExecutionContext>> new_context() override { return internal_error("a fake runs nothing"); }

 private:
  std::vector<ir::Graph> graphs_;
};

FakeProgram two_methods() {
  test::SmallGraphOptions prefill;
  prefill.name = "prefill_4";
  prefill.tokens = 4;
  test::SmallGraphOptions decode;
  decode.tokens = 1;
  return FakeProgram({test::small_graph(decode), test::small_graph(prefill)});
}

TEST(AllocateAligned, IsAlignedAlsoWhenEmpty) {
  for (const uint64_t size : {0, 1, 63, 64, 65, 1'000'000}) {
    const AlignedMemory memory = allocate_aligned(size);
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.get()) % 64, 0u);
  }
}

TEST(MethodMemory, StatesAreSharedInputsAndOutputsAreNot) {
  FakeProgram program = two_methods();
  auto memory = MethodMemory::allocate(program);
  ASSERT_TRUE(memory.ok()) << memory.error().message;
  std::set<void*> buffers;
  for (const char* name : {"k_cache.0", "v_cache.0"}) {
    void* state = memory->find(program, 0, name);
    ASSERT_NE(state, nullptr);
    EXPECT_EQ(memory->find(program, 1, name), state);
    EXPECT_TRUE(buffers.insert(state).second);
  }
  for (size_t method = 0; method < 2; ++method) {
    for (const char* name : {"tokens", "positions", "mask", "logits"}) {
      void* buffer = memory->find(program, method, name);
      ASSERT_NE(buffer, nullptr) << name;
      EXPECT_TRUE(buffers.insert(buffer).second) << name;
      EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer) % 64, 0u);
    }
  }
  EXPECT_EQ(memory->states().size(), 2u);
}

TEST(MethodMemory, BindsInputsOutputsAndStatesOnly) {
  FakeProgram program = two_methods();
  auto memory = MethodMemory::allocate(program);
  ASSERT_TRUE(memory.ok());
  for (size_t method = 0; method < 2; ++method) {
    const ir::Graph& graph = program.method(method);
    const Bindings& bindings = memory->bindings(method);
    ASSERT_EQ(bindings.data.size(), graph.tensors.size());
    for (size_t i = 0; i < graph.tensors.size(); ++i) {
      const ir::TensorRole role = graph.tensors[i].role;
      const bool outside =
          role == ir::TensorRole::kInput || role == ir::TensorRole::kOutput || role == ir::TensorRole::kState;
      EXPECT_EQ(bindings.data[i] != nullptr, outside) << graph.tensors[i].name;
    }
  }
  EXPECT_EQ(memory->find(program, 0, "absent"), nullptr);
  EXPECT_EQ(memory->find(program, 0, "head"), nullptr);
}

TEST(MethodMemory, CountsItsBytes) {
  FakeProgram program = two_methods();
  auto memory = MethodMemory::allocate(program);
  ASSERT_TRUE(memory.ok());
  uint64_t wanted = 2 * (2 * 8 * 4) * sizeof(float);  // The two caches, once.
  for (const uint64_t tokens : {1, 4}) wanted += tokens * (4 + 4 + 8 * 4 + 24 * 4);
  EXPECT_EQ(memory->total_bytes(), wanted);
  // All of it can be written.
  for (auto& [name, state] : memory->states()) std::fill_n(state.memory.get(), state.bytes, uint8_t{0xab});
}

TEST(MethodMemory, MethodsMustAgreeOnAState) {
  using Change = void (*)(ir::Tensor&);
  for (const Change change :
       {Change([](ir::Tensor& t) { t.dtype = DType::kF16; }), Change([](ir::Tensor& t) { t.shape[1] = 16; }),
        Change([](ir::Tensor& t) { t.encoding.scale = 2.0f; })}) {
    ir::Graph first = test::small_graph(), second = test::small_graph();
    change(second.at(*second.find("v_cache.0")));
    FakeProgram program({first, second});
    const auto memory = MethodMemory::allocate(program);
    ASSERT_FALSE(memory.ok());
    EXPECT_NE(memory.error().message.find("v_cache.0"), std::string::npos) << memory.error().message;
  }
}

// A device's own memory, as long as it has some; plain memory after that.
TEST(MethodMemory, UsesTheProgramsSharedMemoryFirst) {
  class SharingProgram final : public Program {
   public:
    size_t method_count() const override { return 1; }
    const ir::Graph& method(size_t) const override { return graph_; }
    Result<std::unique_ptr<ExecutionContext>> new_context() override { return internal_error("a fake runs nothing"); }
    std::shared_ptr<uint8_t> allocate_shared(uint64_t bytes) override {
      if (given.size() == 3) return nullptr;
      std::shared_ptr<uint8_t> memory(allocate_aligned(bytes).release(), FreeDeleter());
      given.push_back(memory);
      return memory;
    }
    std::vector<std::weak_ptr<uint8_t>> given;

   private:
    ir::Graph graph_ = test::small_graph();
  };
  SharingProgram program;
  {
    auto memory = MethodMemory::allocate(program);
    ASSERT_TRUE(memory.ok()) << memory.error().message;
    ASSERT_EQ(program.given.size(), 3u);
    std::set<void*> bound(memory->bindings(0).data.begin(), memory->bindings(0).data.end());
    for (const auto& block : program.given) EXPECT_EQ(bound.count(block.lock().get()), 1u);
    EXPECT_EQ(bound.size(), 1u + 6u) << "null, four inputs and outputs, and two caches";
  }
  for (const auto& block : program.given) EXPECT_TRUE(block.expired()) << "it is given back";
}

TEST(MethodMemory, TooMuchIsAnErrorThatSaysWhatToDo) {
  ir::Graph graph = test::small_graph();
  graph.at(*graph.find("k_cache.0")).shape = {1 << 20, 1 << 20, 1 << 20};  // 4 exabytes.
  FakeProgram program({graph});
  const auto memory = MethodMemory::allocate(program);
  ASSERT_FALSE(memory.ok());
  EXPECT_EQ(memory.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(memory.error().message.find("k_cache.0"), std::string::npos);
}

}  // namespace method_memory_test
}  // namespace tandem

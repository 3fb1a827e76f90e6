// A file with three real context binaries, loaded and run on Qualcomm's emulator.
#include "backends/qnn/execute/program.h"

#include <gtest/gtest.h>

#include <thread>

#include "backends/interface/method_memory.h"
#include "backends/qnn/execute/tiny_model.h"

namespace tandem::qnn {
namespace program_test {

using ::tandem::test::TempFolder;

// A session's memory and random numbers in it.
struct Call {
  std::vector<int32_t> tokens;
  std::vector<int32_t> positions;
  std::vector<float> cache;  // The dequantized values.
  std::vector<float> mask;
};

Call fill(Program& program, MethodMemory& memory, size_t method, std::vector<int32_t> tokens,
          std::vector<int32_t> positions, uint32_t seed) {
  Call call;
  call.tokens = std::move(tokens);
  call.positions = std::move(positions);
  const ir::Graph& graph = program.method(method);
  const auto put = [&](const char* name, const std::vector<float>& values) {
    const ir::Tensor& tensor = graph.at(*graph.find(name));
    void* const data = memory.find(program, method, name);
    ir::encode_row(tensor.dtype, tensor.encoding, values.data(), static_cast<int64_t>(values.size()), data);
    std::vector<float> kept(values.size());
    ir::decode_row(tensor.dtype, tensor.encoding, data, static_cast<int64_t>(values.size()), kept.data());
    return kept;
  };
  const size_t n = call.tokens.size();
  call.cache = put("k_cache.0", test::random_floats(test::kContext * test::kWidth, -0.5f, 0.5f, seed));
  call.mask = put("mask", test::random_floats(n * (test::kContext + n), -0.9f, 0, seed + 1));
  std::memcpy(memory.find(program, method, "tokens"), call.tokens.data(), 4 * n);
  std::memcpy(memory.find(program, method, "positions"), call.positions.data(), 4 * n);
  return call;
}

std::vector<float> logits_of(Program& program, MethodMemory& memory, size_t method) {
  const ir::Graph& graph = program.method(method);
  const ir::Tensor& tensor = graph.at(*graph.find("logits"));
  std::vector<float> values(static_cast<size_t>(ir::element_count_of(tensor)));
  ir::decode_row(tensor.dtype, tensor.encoding, memory.find(program, method, "logits"),
                 static_cast<int64_t>(values.size()), values.data());
  return values;
}

class QnnProgramTest : public ::testing::Test {
 protected:
  void SetUp() override {
    TANDEM_NEEDS_QNN();
    ASSERT_TRUE(test::tiny_binaries().ok()) << test::tiny_binaries().error().message;
  }

  void load(const test::TinyChanges& changes = {}) {
    auto artifact = test::tiny_artifact(folder_, changes);
    ASSERT_TRUE(artifact.ok()) << artifact.error().message;
    artifact_.emplace(std::move(artifact).value());
    QnnOptions options = test::tiny_options();
    options.log = Log([this](LogLevel, std::string_view message) { said_.emplace_back(message); });
    auto program = load_program(*artifact_, pool_, options, platform_);
    ASSERT_TRUE(program.ok()) << program.error().message;
    program_ = std::move(program).value();
  }

  TempFolder folder_;
  ThreadPool pool_{2};
  Platform platform_ = Platform::here();
  std::optional<Artifact> artifact_;
  std::vector<std::string> said_;  // By the log.
  std::unique_ptr<Program> program_;
};

// In steps of the logits' encoding; the shards round inside as well. Measured: 5.
constexpr float kLimit = 10;

void expect_rows(const std::vector<float>& got, const std::vector<float>& expected, size_t first, size_t rows) {
  float most = 0;
  for (size_t i = first * test::kVocab; i < (first + rows) * test::kVocab; ++i) {
    most = std::max(most, std::abs(got[i] - expected[i]) / test::kLogits.scale);
  }
  std::printf("[ measured ] logits within %.1f steps\n", static_cast<double>(most));
  EXPECT_LE(most, kLimit);
}

TEST_F(QnnProgramTest, DecodeGivesTheLogitsAndTheNewKeys) {
  load();
  auto memory = MethodMemory::allocate(*program_);
  auto context = program_->new_context();
  ASSERT_TRUE(memory.ok() && context.ok());
  for (const int32_t token : {0, 7, 63}) {
    const Call call = fill(*program_, *memory, 0, {token}, {token % 16}, static_cast<uint32_t>(token));
    memory->bindings(0).first_row = 0;
    memory->bindings(0).rows = 1;
    const Status status = (*context)->run(0, memory->bindings(0));
    ASSERT_TRUE(status.ok()) << status.error().message;
    expect_rows(logits_of(*program_, *memory, 0),
                test::expected_logits(call.tokens, call.positions, call.cache, call.mask), 0, 1);
    const auto* const k_new = static_cast<const uint8_t*>(memory->find(*program_, 0, "k_new.0"));
    const test::TinyModel model;
    for (int64_t i = 0; i < test::kWidth; ++i) {
      uint8_t code = 0;
      ir::encode_row(DType::kU8, test::kKeys, &model.table[static_cast<size_t>(token * test::kWidth + i)], 1, &code);
      EXPECT_LE(std::abs(k_new[i] - code), 1) << i;
    }
  }
}

TEST_F(QnnProgramTest, PrefillRunsTheHeadForTheWantedRowsAlone) {
  load();
  auto memory = MethodMemory::allocate(*program_);
  auto context = program_->new_context();
  ASSERT_TRUE(memory.ok() && context.ok());
  // Two rows of padding: their positions must not reach the table.
  const Call call = fill(*program_, *memory, 1, {5, 6, 0, 0}, {3, 4, -1, -1}, 9);
  const auto expected = test::expected_logits(call.tokens, call.positions, call.cache, call.mask);
  Bindings& bindings = memory->bindings(1);
  void* const logits = memory->find(*program_, 1, "logits");
  const size_t row_bytes = test::kVocab * 2;
  for (const auto& [first, rows] : {std::pair<int64_t, int64_t>{1, 1}, {0, 2}, {2, 0}}) {
    std::memset(logits, 0xab, 4 * row_bytes);
    bindings.first_row = first;
    bindings.rows = rows;
    const Status status = (*context)->run(1, bindings);
    ASSERT_TRUE(status.ok()) << status.error().message;
    expect_rows(logits_of(*program_, *memory, 1), expected, static_cast<size_t>(first), static_cast<size_t>(rows));
    const auto* const bytes = static_cast<const uint8_t*>(logits);
    for (size_t row = 0; row < 4; ++row) {
      const bool wanted = static_cast<int64_t>(row) >= first && static_cast<int64_t>(row) < first + rows;
      const bool untouched = std::all_of(bytes + row * row_bytes, bytes + (row + 1) * row_bytes,
                                         [](uint8_t byte) { return byte == 0xab; });
      EXPECT_EQ(untouched, !wanted) << row;
    }
  }
  // The caller's positions are unchanged.
  EXPECT_EQ(static_cast<const int32_t*>(memory->find(*program_, 1, "positions"))[2], -1);
}

TEST_F(QnnProgramTest, PrefillAndDecodeGiveTheSameKeys) {
  load();
  auto memory = MethodMemory::allocate(*program_);
  auto context = program_->new_context();
  ASSERT_TRUE(memory.ok() && context.ok());
  fill(*program_, *memory, 1, {9, 10, 11, 12}, {0, 1, 2, 3}, 3);
  memory->bindings(1).rows = 0;
  ASSERT_TRUE((*context)->run(1, memory->bindings(1)).ok());
  const auto* const together = static_cast<const uint8_t*>(memory->find(*program_, 1, "k_new.0"));
  for (int32_t i = 0; i < 4; ++i) {
    fill(*program_, *memory, 0, {9 + i}, {i}, 3);
    memory->bindings(0).rows = 0;
    ASSERT_TRUE((*context)->run(0, memory->bindings(0)).ok());
    const auto* const alone = static_cast<const uint8_t*>(memory->find(*program_, 0, "k_new.0"));
    EXPECT_EQ(std::memcmp(alone, together + i * test::kWidth, test::kWidth), 0) << i;
  }
}

TEST_F(QnnProgramTest, DecodeWithoutWantedRowsDoesNotRunTheHead) {
  load();
  auto memory = MethodMemory::allocate(*program_);
  auto context = program_->new_context();
  ASSERT_TRUE(memory.ok() && context.ok());
  fill(*program_, *memory, 0, {1}, {0}, 1);
  auto* const logits = static_cast<uint8_t*>(memory->find(*program_, 0, "logits"));
  std::memset(logits, 0xab, test::kVocab * 2);
  memory->bindings(0).rows = 0;
  ASSERT_TRUE((*context)->run(0, memory->bindings(0)).ok());
  EXPECT_TRUE(std::all_of(logits, logits + test::kVocab * 2, [](uint8_t byte) { return byte == 0xab; }));
}

TEST_F(QnnProgramTest, RefusesWhatTheNpuMustNotSee) {
  load();
  auto memory = MethodMemory::allocate(*program_);
  auto context = program_->new_context();
  ASSERT_TRUE(memory.ok() && context.ok());
  Bindings& bindings = memory->bindings(0);
  bindings.rows = 1;
  for (const int32_t token : {-1, 64, INT32_MAX, INT32_MIN}) {
    fill(*program_, *memory, 0, {token}, {0}, 1);
    const Status status = (*context)->run(0, bindings);
    ASSERT_FALSE(status.ok()) << token;
    EXPECT_TRUE(test::says(status.error(), {"vocabulary of 64"}));
  }
  fill(*program_, *memory, 0, {1}, {16}, 1);
  Status status = (*context)->run(0, bindings);
  ASSERT_FALSE(status.ok());
  EXPECT_TRUE(test::says(status.error(), {"position 16", "context of 16"}));
  fill(*program_, *memory, 0, {1}, {0}, 1);
  for (const auto& [first, rows] : {std::pair<int64_t, int64_t>{0, 2}, {1, 1}, {-1, 1}, {0, -1}, {0, INT64_MAX}}) {
    bindings.first_row = first;
    bindings.rows = rows;
    EXPECT_FALSE((*context)->run(0, bindings).ok()) << first << ", " << rows;
  }
  EXPECT_FALSE((*context)->run(2, bindings).ok());
  EXPECT_FALSE((*context)->run(1, bindings).ok()) << "the bindings of another method";
  Bindings incomplete = memory->bindings(0);
  incomplete.first_row = 0;
  incomplete.rows = 1;
  incomplete.data[static_cast<size_t>(*program_->method(0).find("k_cache.0"))] = nullptr;
  status = (*context)->run(0, incomplete);
  ASSERT_FALSE(status.ok());
  EXPECT_TRUE(test::says(status.error(), {"without memory for \"k_cache.0\""}));
}

TEST_F(QnnProgramTest, SeveralContextsRunAtTheSameTime) {
  load();
  std::vector<std::thread> threads;
  std::vector<std::string> failures(3);
  std::vector<std::vector<float>> got(3), expected(3);
  for (size_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      auto memory = MethodMemory::allocate(*program_);
      auto context = program_->new_context();
      for (int step = 0; step < 5; ++step) {
        const size_t method = (static_cast<size_t>(step) + t) % 2;
        const auto id = static_cast<int32_t>(t * 10);
        const Call call =
            method == 0 ? fill(*program_, *memory, 0, {id}, {step}, static_cast<uint32_t>(t))
                        : fill(*program_, *memory, 1, {id, id + 1, id, id}, {0, 1, 2, 3}, static_cast<uint32_t>(t));
        Bindings& bindings = memory->bindings(method);
        bindings.first_row = 0;
        bindings.rows = program_->method(method).tokens;
        const Status status = (*context)->run(method, bindings);
        if (!status.ok()) failures[t] = status.error().message;
        got[t] = logits_of(*program_, *memory, method);
        expected[t] = test::expected_logits(call.tokens, call.positions, call.cache, call.mask);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t t = 0; t < 3; ++t) {
    EXPECT_EQ(failures[t], "");
    expect_rows(got[t], expected[t], 0, got[t].size() / test::kVocab);
  }
}

TEST_F(QnnProgramTest, TwoProgramsLiveTogetherAndAContextOutlivesItsProgram) {
  load();
  auto second = load_program(*artifact_, pool_, test::tiny_options());
  ASSERT_TRUE(second.ok()) << second.error().message;
  auto memory = MethodMemory::allocate(**second);
  auto context = (*second)->new_context();
  ASSERT_TRUE(memory.ok() && context.ok());
  program_.reset();
  const Call call = fill(**second, *memory, 0, {3}, {2}, 5);
  memory->bindings(0).rows = 1;
  ASSERT_TRUE((*context)->run(0, memory->bindings(0)).ok());
  const auto expected = test::expected_logits(call.tokens, call.positions, call.cache, call.mask);
  expect_rows(logits_of(**second, *memory, 0), expected, 0, 1);
  const Bindings bindings = memory->bindings(0);
  second->reset();
  EXPECT_TRUE((*context)->run(0, bindings).ok());
}

TEST_F(QnnProgramTest, RunsInSharedMemoryThatTheLibraryRefusesToRegister) {
  platform_.rpc_library = std::string(TANDEM_QNN_EXECUTE_FAKES) + "/libcdsprpc.so";
  platform_.sets_power = true;  // Accepted, without effect here.
  load();
  const auto shared = program_->allocate_shared(test::kContext * test::kWidth);
  ASSERT_NE(shared, nullptr);
  auto memory = MethodMemory::allocate(*program_);
  auto context = program_->new_context();
  ASSERT_TRUE(memory.ok() && context.ok());
  const Call call = fill(*program_, *memory, 0, {3}, {2}, 5);
  Bindings bindings = memory->bindings(0);
  bindings.rows = 1;
  void*& cache = bindings.data[static_cast<size_t>(*program_->method(0).find("k_cache.0"))];
  std::memcpy(shared.get(), cache, test::kContext * test::kWidth);
  std::memset(cache, 0, test::kContext * test::kWidth);
  cache = shared.get();
  const Status status = (*context)->run(0, bindings);
  ASSERT_TRUE(status.ok()) << status.error().message;
  expect_rows(logits_of(*program_, *memory, 0),
              test::expected_logits(call.tokens, call.positions, call.cache, call.mask), 0, 1);
  EXPECT_EQ(std::ranges::count_if(said_, [](const std::string& s) { return s.find("without shared") != s.npos; }), 1);
}

TEST_F(QnnProgramTest, WithoutSharedMemoryThereIsNoneToGive) {
  load();
  EXPECT_EQ(program_->allocate_shared(100), nullptr);
}

TEST_F(QnnProgramTest, AHeadThatNamesNoMethodServesAll) {
  load({.header = [](ArtifactHeader& header) { header.shards[2].graphs = {{"head", "", 1}}; }, .binaries = {}});
  auto memory = MethodMemory::allocate(*program_);
  auto context = program_->new_context();
  ASSERT_TRUE(memory.ok() && context.ok());
  const Call call = fill(*program_, *memory, 1, {5, 6, 7, 8}, {3, 4, 5, 6}, 9);
  memory->bindings(1).rows = 4;
  ASSERT_TRUE((*context)->run(1, memory->bindings(1)).ok());
  expect_rows(logits_of(*program_, *memory, 1),
              test::expected_logits(call.tokens, call.positions, call.cache, call.mask), 0, 4);
}

}  // namespace program_test
}  // namespace tandem::qnn

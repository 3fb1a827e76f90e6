// The CPU back end alone, without tokenizers and compiler: stored files give the tokens and logits that were stored
// with them, with every instruction set's kernels. These tests are small enough to run under emulation of another
// processor; tests/runtime/ has the rest.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>

#include "artifact/reader.h"
#include "backends/cpu/execute/program.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/interface/io_conversion.h"
#include "backends/interface/method_inputs.h"
#include "backends/interface/method_memory.h"
#include "base/json.h"

namespace tandem {
namespace stored_file_test {

using Tokens = std::span<const int32_t>;

struct Runner {
  Program& program;
  MethodMemory memory;
  std::unique_ptr<ExecutionContext> context;
  int64_t position = 0;

  // The smallest method that computes all tokens in one call.
  size_t choose(size_t tokens) const {
    const auto size = [&](size_t i) { return static_cast<size_t>(program.method(i).tokens); };
    size_t best = program.method_count();
    for (size_t i = 0; i < program.method_count(); ++i) {
      if (size(i) >= tokens && (best == program.method_count() || size(i) < size(best))) best = i;
    }
    return best;
  }

  // Logits of all tokens, one row each.
  std::vector<float> feed(Tokens tokens) {
    const size_t method = choose(tokens.size());
    if (method == program.method_count()) return {};
    const ir::Graph& graph = program.method(method);
    Bindings& bindings = memory.bindings(method);
    ir::fill_inputs(graph, *ir::MethodInputs::read(graph), {tokens, position, false}, bindings);
    bindings.first_row = 0;
    bindings.rows = static_cast<int64_t>(tokens.size());
    const Status status = context->run(method, bindings);
    EXPECT_TRUE(status.ok()) << status.error().message;
    position += bindings.rows;
    const ir::TensorId id = *graph.find("logits");
    const ir::Tensor& tensor = graph.at(id);
    std::vector<float> logits(tokens.size() * static_cast<size_t>(tensor.shape[1]));
    ir::decode_row(tensor.dtype, tensor.encoding, bindings.data[static_cast<size_t>(id)],
                   static_cast<int64_t>(logits.size()), logits.data());
    return logits;
  }
};

double sqnr_db(const std::vector<float>& wanted, const std::vector<float>& got) {
  double signal = 0.0, noise = 0.0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    signal += double{wanted[i]} * double{wanted[i]};
    noise += std::pow(double{got[i]} - double{wanted[i]}, 2);
  }
  return 10.0 * std::log10(signal / noise);
}

class StoredFile : public testing::TestWithParam<const char*> {
 protected:
  void TearDown() override { ::unsetenv("TANDEM_ISA"); }
};

TEST_P(StoredFile, GivesItsTokensAndLogits) {
  const std::string path = TANDEM_SOURCE_DIR "/tests/data/artifact/" + std::string(GetParam());
  std::ifstream stream(path + ".json");
  const Json expected = Json::parse(stream);
  const auto prompt = expected["prompt"].get<std::vector<int32_t>>();
  const auto want_logits = expected["logits"].get<std::vector<float>>();
  const auto want_tokens = expected["greedy"].get<std::vector<int32_t>>();
  const auto artifact = Artifact::open(path + ".tdm");
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  ThreadPool pool(2);
  for (const cpu::KernelTable* kernels : cpu::available_kernels()) {
    SCOPED_TRACE(kernels->isa);
    ::setenv("TANDEM_ISA", std::string(kernels->isa).c_str(), 1);
    const auto program = cpu::load_program(*artifact, pool);
    ASSERT_TRUE(program.ok()) << program.error().message;
    auto memory = MethodMemory::allocate(**program);
    auto context = (*program)->new_context();
    ASSERT_TRUE(memory.ok() && context.ok());
    Runner runner{**program, std::move(*memory), std::move(*context)};

    std::vector<float> logits = runner.feed(prompt);
    ASSERT_EQ(logits.size(), want_logits.size()) << "no method takes the prompt at once";
    const double sqnr = sqnr_db(want_logits, logits);
    std::printf("[ logits   ] %s: %.1f dB\n", std::string(kernels->isa).c_str(), sqnr);
    EXPECT_GE(sqnr, 80.0);
    const auto vocabulary = static_cast<std::ptrdiff_t>(logits.size() / prompt.size());
    std::vector<int32_t> tokens;
    while (tokens.size() < want_tokens.size()) {
      const auto last = logits.end() - vocabulary;
      tokens.push_back(static_cast<int32_t>(std::max_element(last, logits.end()) - last));
      logits = runner.feed({&tokens.back(), 1});
    }
    EXPECT_EQ(tokens, want_tokens);
  }
}

INSTANTIATE_TEST_SUITE_P(Files, StoredFile, testing::Values("v1", "v1_mixed"),
                         [](const auto& param_info) { return std::string(param_info.param); });

}  // namespace stored_file_test
}  // namespace tandem

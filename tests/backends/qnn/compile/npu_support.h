// What the tests of the NPU half of the compiler share: checkpoints with their plans, compiles for Qualcomm's emulator,
// logits of programs, and workers that are shell scripts.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "artifact/reader.h"
#include "backends/qnn/api/qnn_support.h"
#include "compiler/compile.h"
#include "eval/tested_model.h"
#include "models/builder.h"
#include "runtime/token_runner.h"
#include "support/compiled_model.h"
#include "support/opened_model.h"
#include "weights/checkpoint_weights.h"

namespace tandem::test {

// The target of tests that run in a separate process (support/own_process.h).
inline constexpr const char* kTargetVariable = "TANDEM_NPU_TEST_TARGET";

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

// The logits after each token. The first tokens in as few calls as possible, the last `alone` one by one, so that every
// method of the program is called.
inline std::vector<float> logits_of(Program& program, int64_t vocab_size, std::span<const int32_t> tokens,
                                    size_t alone = 5) {
  std::vector<float> rows;
  auto table = MethodTable::read(program, vocab_size);
  EXPECT_TRUE(table.ok()) << table.error().message;
  if (!table.ok()) return rows;
  auto runner = TokenRunner::create(program, *table);
  EXPECT_TRUE(runner.ok()) << runner.error().message;
  if (!runner.ok()) return rows;
  const std::atomic<bool> stop = false;
  const auto feed = [&](std::span<const int32_t> part) {
    const Status status =
        runner->feed(part, TokenRunner::Logits::kAll, stop, [&](size_t, std::span<const float> logits) {
          rows.insert(rows.end(), logits.begin(), logits.end());
          return ok_status();
        });
    EXPECT_TRUE(status.ok()) << status.error().message;
  };
  const size_t together = tokens.size() - alone;
  feed(tokens.first(together));
  for (size_t i = together; i < tokens.size(); ++i) feed(tokens.subspan(i, 1));
  return rows;
}

// ---- With Qualcomm's library ----

inline std::string libraries() { return qnn::test::qnn_library().value()->path(); }

// A compile for the emulator of a Snapdragon 8 Elite (V79). One process can work for one architecture.
inline CompileOptions npu_options(const std::string& recipe = "w8", std::vector<int64_t> prefill = {8}) {
  CompileOptions options;
  options.target = "sm8750";
  options.prefill = std::move(prefill);
  options.context = 64;
  options.recipe = parse_recipe(recipe);
  options.threads = 2;
  options.backend["emulator"] = "true";
  options.backend["qnn-worker"] = TANDEM_WORKER;
  if (qnn::test::qnn_library().ok()) options.backend["qnn-libs"] = libraries();
  return options;
}

inline CompileReport must_compile(const std::filesystem::path& checkpoint, const std::filesystem::path& output,
                                  const CompileOptions& options) {
  auto report = compile(checkpoint, output, options);
  EXPECT_TRUE(report.ok()) << (report.ok() ? "" : report.error().message);
  return report.ok() ? *std::move(report) : CompileReport{};
}

inline EngineOptions npu_engine_options() {
  EngineOptions options;
  options.threads = 2;
  if (qnn::test::qnn_library().ok()) options.backend["qnn-libs"] = libraries();
  return options;
}

inline std::shared_ptr<Engine> load_npu(const std::filesystem::path& file) {
  auto engine = Engine::load(file, npu_engine_options());
  EXPECT_TRUE(engine.ok()) << (engine.ok() ? "" : engine.error().message);
  return engine.ok() ? *engine : nullptr;
}

// On the emulator: the first tokens together, the last few one by one.
inline std::vector<float> device_logits(const std::filesystem::path& file, std::span<const int32_t> tokens,
                                        size_t alone = 3) {
  const auto engine = load_npu(file);
  if (engine == nullptr) return {};
  const auto session = new_session(*engine);
  std::vector<float> rows = score(*session, tokens.first(tokens.size() - alone));
  for (size_t i = tokens.size() - alone; i < tokens.size(); ++i) {
    const auto row = score(*session, tokens.subspan(i, 1));
    rows.insert(rows.end(), row.begin(), row.end());
  }
  return rows;
}

// The reference interpreter on the same graphs, with the same encodings and quantized weights; or on the float model.
inline std::vector<float> phase_logits(const std::filesystem::path& file, const std::filesystem::path& checkpoint,
                                       Phase phase, std::span<const int32_t> tokens) {
  TestedModelOptions options;
  options.phase = phase;
  options.context = static_cast<int64_t>(tokens.size());
  options.engine.threads = 2;
  options.checkpoint = checkpoint;
  auto model = TestedModel::open(phase == Phase::kFloat ? checkpoint : file, options);
  EXPECT_TRUE(model.ok()) << model.error().message;
  std::vector<float> rows;
  if (!model.ok()) return rows;
  const Status status = (*model)->score(tokens, [&](size_t, std::span<const float> logits) {
    rows.insert(rows.end(), logits.begin(), logits.end());
    return ok_status();
  });
  EXPECT_TRUE(status.ok()) << status.error().message;
  return rows;
}

// ---- Workers ----

inline std::filesystem::path write_script(const std::filesystem::path& path, const std::string& body) {
  write_file(path, std::string_view("#!/bin/sh\n" + body));
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

inline bool process_exists(int pid) { return ::kill(pid, 0) == 0; }

}  // namespace tandem::test

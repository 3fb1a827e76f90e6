// An NPU file without its binaries: enough for everything that does not run on the device.
#pragma once

#include <gtest/gtest.h>

#include "artifact/reader.h"
#include "artifact/writer.h"
#include "backends/qnn/compile/npu_rules.h"
#include "backends/qnn/compile/shard_job.h"
#include "compiler/calibration/calibrate.h"
#include "compiler/compile_job.h"
#include "eval/tested_model.h"
#include "support/compiled_model.h"
#include "support/score_rows.h"

namespace tandem::test {

inline constexpr int64_t kNpuContext = 64;
inline constexpr int64_t kNpuPrefill = 8;

struct NpuFileOptions {
  const char* recipe = "w4";
  KvFormat kv = KvFormat::kU8;
  AttentionForm attention = {};
  bool trace = true;
};

struct NpuFile {
  std::filesystem::path path;
  std::vector<ir::Graph> methods;
  Recipe recipe;
};

inline std::vector<int32_t> some_tokens(size_t count, int32_t seed = 1) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < count; ++i) tokens.push_back((static_cast<int32_t>(i) * 37 + seed * 11) % 280);
  return tokens;
}

// From the golden Qwen3 checkpoint.
inline NpuFile write_npu_file(const TempFolder& folder, const std::string& name, const NpuFileOptions& settings = {}) {
  NpuFile file{folder / name, {}, {}};
  CompileOptions options;
  options.target = "sm8750";
  options.prefill = {kNpuPrefill};
  options.context = kNpuContext;
  options.recipe = *recipe_preset(settings.recipe);
  options.kv = settings.kv;
  auto opened = CompileJob::open(golden_dir("qwen3"), file.path, options);
  EXPECT_TRUE(opened.ok()) << opened.error().message;
  if (!opened.ok()) return file;
  CompileJob& job = **opened;
  ThreadPool pool(2);
  const auto calibration = calibrate({job.plan(),
                                      job.weights(),
                                      job.recipe(),
                                      RangeMethod::kMinMax,
                                      false,
                                      {some_tokens(40), some_tokens(40, 2)},
                                      {},
                                      {}},
                                     pool);
  EXPECT_TRUE(calibration.ok()) << calibration.error().message;
  if (!calibration.ok()) return file;
  StaticMethods form;
  form.shapes = job.shapes();
  form.trace = settings.trace;
  form.embedding_on_host = embedding_on_host(job.plan(), job.recipe());
  for (const MethodShape& shape : job.shapes()) form.variant.attention.by_tokens[shape.tokens] = settings.attention;
  auto methods = build_static_methods(job.plan(), job.recipe(), form, calibration->table, {});
  EXPECT_TRUE(methods.ok()) << methods.error().message;
  if (!methods.ok()) return file;
  methods->pop_back();
  file.methods = *methods;
  file.recipe = job.recipe();

  const std::string_view binary = "not a binary";
  write_file(folder / "binary", binary);
  ArtifactHeader header = job.make_header({});
  header.methods = file.methods;
  header.shards = {{.name = "layers.0-1", .binary = {0, 0, binary.size()}, .checksum = 0, .graphs = {}}};
  const std::span bytes(reinterpret_cast<const uint8_t*>(binary.data()), binary.size());
  const Status status =
      write_artifact(file.path, std::move(header), {{"shard", folder / "binary", hash_bytes(bytes)}}, {});
  EXPECT_TRUE(status.ok()) << status.error().message;
  return file;
}

inline Result<std::unique_ptr<TestedModel>> open_phase(const std::filesystem::path& path, Phase phase,
                                                       const std::filesystem::path& checkpoint) {
  TestedModelOptions options;
  options.phase = phase;
  options.engine.threads = 2;
  options.checkpoint = checkpoint;
  return TestedModel::open(path, options);
}

inline std::unique_ptr<TestedModel> open_qdq(const std::filesystem::path& path) {
  auto model = open_phase(path, Phase::kQdq, golden_dir("qwen3"));
  EXPECT_TRUE(model.ok()) << model.error().message;
  return model.ok() ? *std::move(model) : nullptr;
}

}  // namespace tandem::test

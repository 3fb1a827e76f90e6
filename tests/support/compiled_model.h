// Checkpoints of the tests, compiled to files that are deleted with the test program, and logits to compare.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "base/json.h"
#include "compiler/compile.h"
#include "support/golden.h"
#include "support/temp_folder.h"
#include "tandem/engine.h"

namespace tandem::test {

inline std::filesystem::path demo_dir() { return TANDEM_SOURCE_DIR "/models/demo"; }
inline std::filesystem::path golden_dir(std::string_view family) {
  return std::filesystem::path(TANDEM_SOURCE_DIR "/tests/data/golden") / family;
}

struct CompileSpec {
  std::filesystem::path checkpoint = {};
  std::string recipe = "w4";  // A preset, or JSON.
  std::vector<int64_t> prefill = {8, 32};
  int64_t context = 64;
  std::string kv = {};  // Overrides the recipe's.
};

inline Recipe parse_recipe(const std::string& text) {
  auto recipe = text.starts_with("{") ? Recipe::from_json(text) : Recipe::load(text);
  EXPECT_TRUE(recipe.ok()) << recipe.error().message;
  return recipe.ok() ? *recipe : Recipe{};
}

inline CompileOptions to_options(const CompileSpec& spec) {
  CompileOptions options;
  options.prefill = spec.prefill;
  options.context = spec.context;
  options.recipe = parse_recipe(spec.recipe);
  if (!spec.kv.empty()) options.recipe.kv = *kv_format_from_name(spec.kv);
  options.threads = 2;
  return options;
}

// The compiled file. Equal requests are compiled once per program.
inline std::filesystem::path compiled(const CompileSpec& spec) {
  static TempFolder folder;
  static std::map<std::string, std::filesystem::path> done;
  const CompileOptions options = to_options(spec);
  const std::string key = spec.checkpoint.string() + options.recipe.to_json() + Json(spec.prefill).dump() + "/" +
                          std::to_string(spec.context);
  if (const auto it = done.find(key); it != done.end()) return it->second;
  const std::filesystem::path path = folder / (std::to_string(done.size()) + ".tdm");
  const auto report = compile(spec.checkpoint, path, options);
  EXPECT_TRUE(report.ok()) << report.error().message;
  return done[key] = path;
}

inline std::shared_ptr<Engine> load_engine(const std::filesystem::path& path, int threads = 2) {
  auto engine = Engine::load(path, {.threads = threads});
  EXPECT_TRUE(engine.ok()) << (engine.ok() ? "" : engine.error().message);
  return engine.ok() ? *engine : nullptr;
}

inline std::unique_ptr<Session> new_session(Engine& engine) {
  auto session = engine.new_session();
  EXPECT_TRUE(session.ok()) << (session.ok() ? "" : session.error().message);
  return session.ok() ? std::move(*session) : nullptr;
}

// The logits after each token, row by row, from the session's position on.
inline std::vector<float> score(Session& session, std::span<const int32_t> tokens) {
  std::vector<float> rows;
  size_t next = 0;
  const Status status = session.score(tokens, [&](size_t index, std::span<const float> logits) {
    EXPECT_EQ(index, next++);
    rows.insert(rows.end(), logits.begin(), logits.end());
    return ok_status();
  });
  EXPECT_TRUE(status.ok()) << status.error().message;
  return rows;
}

inline std::vector<float> score_file(const std::filesystem::path& path, std::span<const int32_t> tokens) {
  const auto engine = load_engine(path);
  if (engine == nullptr) return {};
  return score(*new_session(*engine), tokens);
}

// Always the most likely token, even after an end-of-text token.
inline std::vector<int32_t> greedy(Session& session, std::span<const int32_t> prompt, int64_t count) {
  GenerateOptions options;
  options.max_new_tokens = count;
  options.ignore_eos = true;
  const auto result = session.generate(prompt, options, {});
  EXPECT_TRUE(result.ok()) << result.error().message;
  return result.ok() ? result->tokens : std::vector<int32_t>{};
}

inline std::vector<int32_t> greedy_file(const std::filesystem::path& path, std::span<const int32_t> prompt,
                                        int64_t count) {
  const auto engine = load_engine(path);
  if (engine == nullptr) return {};
  return greedy(*new_session(*engine), prompt, count);
}

// Hugging Face's results for a golden checkpoint.
inline Json golden_json(std::string_view family) {
  std::ifstream file(golden_dir(family) / "golden.json");
  return Json::parse(file);
}
inline std::vector<int32_t> golden_prompt(std::string_view family, const char* length = "40") {
  return golden_json(family)["prompts"][length].get<std::vector<int32_t>>();
}

inline double standard_deviation(const std::vector<float>& values) {
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  double squares = 0.0;
  for (const float v : values) squares += (v - mean) * (v - mean);
  return std::sqrt(squares / static_cast<double>(values.size()));
}

inline double worst_difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  if (a.size() != b.size()) return INFINITY;
  double worst = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - b[i]);
    if (!(difference <= worst)) worst = difference;  // NaN counts too.
  }
  return worst;
}

// Signal over noise of `got`, in dB; infinity if they are equal.
inline double sqnr_db(const std::vector<float>& wanted, const std::vector<float>& got) {
  EXPECT_EQ(wanted.size(), got.size());
  if (wanted.size() != got.size()) return -INFINITY;
  double signal = 0.0, noise = 0.0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    signal += static_cast<double>(wanted[i]) * wanted[i];
    noise += (static_cast<double>(got[i]) - wanted[i]) * (static_cast<double>(got[i]) - wanted[i]);
  }
  return 10.0 * std::log10(signal / noise);
}

// Sets TANDEM_ISA while it lives.
class ScopedIsa {
 public:
  explicit ScopedIsa(std::string_view isa) {
    if (const char* old = std::getenv("TANDEM_ISA")) old_ = old;
    ::setenv("TANDEM_ISA", std::string(isa).c_str(), 1);
  }
  ~ScopedIsa() { old_.empty() ? ::unsetenv("TANDEM_ISA") : ::setenv("TANDEM_ISA", old_.c_str(), 1); }
  ScopedIsa(const ScopedIsa&) = delete;
  ScopedIsa& operator=(const ScopedIsa&) = delete;

 private:
  std::string old_;
};

}  // namespace tandem::test

// The messages between parent and worker, and a worker that gets nonsense.
#include "backends/qnn/compile/shard_job.h"

#include <gtest/gtest.h>

#include "backends/qnn/compile/npu_support.h"
#include "base/format.h"
#include "base/json.h"

namespace tandem {
namespace shard_job_test {

ShardJob sample_job() {
  ShardJob job;
  job.checkpoint = test::golden_dir("qwen3");
  job.config_name = "config.json";
  job.recipe = recipe_preset("w8")->to_json();
  job.encodings = "/somewhere/encodings \"quoted\".json";
  job.methods.shapes = {{"decode", 1, 64}, {"prefill_8", 8, 64}};
  job.methods.variant.attention.by_tokens = {{1, *parse_attention_form("gqa+kv")}, {8, *parse_attention_form("sha+k")}};
  job.methods.variant.weight_tile_channels = 128;
  job.methods.variant.fold_mask = true;
  job.shard = {"layers.0-1+head", 0, 2, true, 0};
  job.soc_model = 69;
  job.arch = 79;
  job.vtcm_mb = 8;
  job.weight_sharing = true;
  job.libraries = "/nonexistent/libQnnHtp.so";
  job.log_level = LogLevel::kInfo;
  job.threads = 3;
  job.output = "/somewhere/00001.segment";
  return job;
}

ShardResult sample_result() {
  ShardResult result;
  result.size = uint64_t{3} << 30;
  result.hash = 0xfedcba9876543210;
  result.spill_fill_bytes = 5;
  result.peak_memory = 6;
  result.seconds = 1.25;
  result.core_version = "2.40.0";
  result.backend_version = "5.51.0";
  result.build_id = "v2.51.0";
  result.graphs = {{"decode.layers.0-1", 100, 0.5, 0.75}, {"head", 3, 0.25, 0.125}};
  result.graphs[1].estimate = {100, 90, 110, 4000, 5, 6, 7, {"layers.0.attention.q.rope:RotaryEmbedding", "unnamed"}};
  result.report.count = 1000;
  result.report.signal = 2.5;
  result.report.noise = 0.1;
  result.report.max_error = 0.01;
  return result;
}

TEST(ShardJobJson, ComesBackAsItWas) {
  const std::string text = sample_job().to_json();
  const auto job = ShardJob::from_json(text);
  ASSERT_TRUE(job.ok()) << job.error().message;
  EXPECT_EQ(job->to_json(), text);
  EXPECT_EQ(job->encodings, sample_job().encodings);
  EXPECT_EQ(job->methods.shapes[1].tokens, 8);
  EXPECT_EQ(job->methods.variant, sample_job().methods.variant);
  EXPECT_FALSE(job->methods.f16);
  EXPECT_EQ(job->shard.layer_end, 2);
  EXPECT_TRUE(job->shard.head);
  EXPECT_EQ(job->soc_model, 69u);
  EXPECT_EQ(job->threads, 3);
  const std::string said = sample_result().to_json();
  const auto result = ShardResult::from_json(said);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->to_json(), said);
  EXPECT_EQ(result->size, uint64_t{3} << 30);
  EXPECT_EQ(result->hash, 0xfedcba9876543210);
  EXPECT_EQ(result->graphs[1].finalize_seconds, 0.125);
  EXPECT_FALSE(result->graphs[0].estimate.has_value());
  ASSERT_TRUE(result->graphs[1].estimate.has_value());
  EXPECT_EQ(*result->graphs[1].estimate, *sample_result().graphs[1].estimate);
  EXPECT_EQ(result->report.noise, 0.1);
}

// Every key absent, and of every other type: an error that names it.
template <typename T>
void expect_strict(const std::string& text) {
  const Json whole = Json::parse(text);
  for (const auto& [key, value] : whole.items()) {
    Json without = whole;
    without.erase(key);
    auto parsed = T::from_json(without.dump());
    ASSERT_FALSE(parsed.ok()) << key;
    EXPECT_HAS(parsed.error().message, str_format("\"{}\"", key));
    for (const char* other : {"null", "[]", "{}", "\"text\"", "true", "-1", "1.5", "1e300", "99999999999999999999"}) {
      const Json replaced = Json::parse(other);
      if (replaced.type() == value.type()) continue;
      if (value.is_number_float() && replaced.is_number()) continue;
      if (value.is_number_integer() && replaced == -1 &&
          (key == "layer_begin" || key == "layer_end" || key == "arch" || key == "vtcm_mb" || key == "threads" ||
           key == "hvx_threads" || key == "optimization_level" || key == "count")) {
        continue;  // Signed numbers; whether they make sense is checked later.
      }
      Json wrong = whole;
      wrong[key] = replaced;
      parsed = T::from_json(wrong.dump());
      ASSERT_FALSE(parsed.ok()) << key << " = " << other;
      EXPECT_HAS(parsed.error().message, str_format("\"{}\"", key));
    }
  }
  for (size_t length = 0; length < text.size(); length += 7) {
    EXPECT_FALSE(T::from_json(text.substr(0, length)).ok()) << length;
  }
  for (const char* other : {"", "null", "[]", "7", "\"text\"", "{}", "[[[[", "\xff\xfe", "{\"checkpoint\": 1}"}) {
    EXPECT_FALSE(T::from_json(other).ok()) << other;
  }
}

TEST(ShardJobJson, IsStrict) {
  expect_strict<ShardJob>(sample_job().to_json());
  expect_strict<ShardResult>(sample_result().to_json());
}

TEST(ShardJobJson, NumbersMustFit) {
  for (const auto& [key, value] : {std::pair{"threads", "4294967297"},
                                   {"arch", "-3000000000"},
                                   {"soc_model", "-69"},
                                   {"soc_model", "4294967365"},
                                   {"layer_begin", "18446744073709551615"}}) {
    Json wrong = Json::parse(sample_job().to_json());
    wrong[key] = Json::parse(value);
    const auto job = ShardJob::from_json(wrong.dump());
    ASSERT_FALSE(job.ok()) << key << " = " << value;
    EXPECT_HAS(job.error().message, key);
  }
  Json wrong = Json::parse(sample_result().to_json());
  wrong["size"] = -1;
  EXPECT_FALSE(ShardResult::from_json(wrong.dump()).ok());
}

TEST(ShardJobJson, ListsOfNonsense) {
  for (const char* list : {"[1]", "[null]", "[[]]", "[{}]", R"([{"name": "decode", "tokens": "1", "context": 64}])",
                           R"([{"name": "decode", "tokens": 1.5, "context": 64}])"}) {
    Json wrong = Json::parse(sample_job().to_json());
    wrong["methods"] = Json::parse(list);
    EXPECT_FALSE(ShardJob::from_json(wrong.dump()).ok()) << list;
    wrong = Json::parse(sample_result().to_json());
    wrong["graphs"] = Json::parse(list);
    EXPECT_FALSE(ShardResult::from_json(wrong.dump()).ok()) << list;
  }
}

TEST(ShardJobJson, EstimatesOfNonsense) {
  const Json whole = Json::parse(sample_result().to_json());
  const Json good = whole["graphs"][1]["estimate"];
  const auto parse = [&](const Json& estimate) {
    Json wrong = whole;
    wrong["graphs"][1]["estimate"] = estimate;
    return ShardResult::from_json(wrong.dump());
  };
  ASSERT_TRUE(parse(good).ok());
  for (const auto& [key, value] : good.items()) {
    Json without = good;
    without.erase(key);
    EXPECT_FALSE(parse(without).ok()) << key;
    for (const char* other : {"null", "{}", "\"text\"", "-1", "1.5", "1e300", "18446744073709551615", "[1]"}) {
      Json wrong = good;
      wrong[key] = Json::parse(other);
      EXPECT_FALSE(parse(wrong).ok()) << key << " = " << other;
    }
  }
  for (const char* other : {"null", "[]", "7", "\"text\"", "{}"}) EXPECT_FALSE(parse(Json::parse(other)).ok()) << other;
}

// None of these reaches the library, which does not exist.
TEST(RunShardJob, ATaskThatMakesNoSenseIsAnError) {
  const auto refuse = [](const std::function<void(ShardJob&)>& change) {
    ShardJob job = sample_job();
    job.recipe = recipe_preset("fp16")->to_json();
    job.methods.f16 = true;
    job.encodings.clear();
    change(job);
    const auto result = run_shard_job(job, [](std::string_view) {});
    EXPECT_FALSE(result.ok());
    const std::string message = result.ok() ? "" : result.error().message;
    EXPECT_EQ(message.find('\n'), std::string::npos);
    return message;
  };
  EXPECT_HAS(refuse([](ShardJob&) {}), "/nonexistent") << "a job that is right";
  EXPECT_HAS(refuse([](ShardJob& job) { job.checkpoint = "/absent"; }), "/absent");
  EXPECT_HAS(refuse([](ShardJob& job) { job.methods.shapes.clear(); }), "no methods");
  EXPECT_HAS(refuse([](ShardJob& job) { job.output.clear(); }), "no binary and no estimate");
  EXPECT_HAS(refuse([](ShardJob& job) {
               job.output.clear();
               job.estimate = true;
             }),
             "/nonexistent")
      << "only an estimate";
  for (const int64_t tokens : {int64_t{0}, int64_t{-1}, INT64_MIN, INT64_MAX, int64_t{1} << 40}) {
    const auto message = refuse([&](ShardJob& job) { job.methods.shapes[1].tokens = tokens; });
    EXPECT_EQ(message.find("/nonexistent"), std::string::npos) << tokens << ": " << message;
  }
  for (const int64_t context : {int64_t{0}, int64_t{-1}, INT64_MIN, INT64_MAX, int64_t{1} << 40}) {
    const auto message = refuse([&](ShardJob& job) { job.methods.shapes[0].context = context; });
    EXPECT_EQ(message.find("/nonexistent"), std::string::npos) << context << ": " << message;
  }
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{-1, 2}, {0, 3}, {1, 0}, {5, 9}, {0, INT64_MAX}}) {
    const auto message = refuse([&](ShardJob& job) {
      job.shard.layer_begin = begin;
      job.shard.layer_end = end;
    });
    EXPECT_HAS(message, "layers") << begin << " to " << end;
  }
  EXPECT_HAS(refuse([](ShardJob& job) {
               job.shard.layer_end = 0;
               job.shard.head = false;
             }),
             "nothing");
  for (const int threads : {0, -1, 100'000}) {
    EXPECT_HAS(refuse([&](ShardJob& job) { job.threads = threads; }), "threads");
  }
  EXPECT_FALSE(refuse([](ShardJob& job) { job.recipe = std::string("{"); }).empty());
  EXPECT_HAS(refuse([](ShardJob& job) { job.encodings = "/absent.json"; }), "/absent.json");
  EXPECT_HAS(refuse([](ShardJob& job) { job.methods.f16 = false; }), "no entry");
}

}  // namespace shard_job_test
}  // namespace tandem

#include "quant/encoding_table.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <random>

namespace tandem {
namespace encoding_table_test {

TensorEncoding entry(float scale, int32_t zero_point, DType dtype = DType::kU16) {
  TensorEncoding e;
  e.dtype = dtype;
  e.encoding = {ir::EncodingKind::kPerTensor, scale, zero_point};
  e.observed_min = -1.5f;
  e.observed_max = 2.25f;
  e.clipped = 1.0 / 3.0;
  e.sqnr_db = 87.654321098765;
  e.method = "mse";
  return e;
}

std::string file_with(std::string_view body) { return R"({"version": 1, "encodings": {)" + std::string(body) + "}}"; }

void expect_error(std::string_view json, std::initializer_list<std::string_view> words) {
  const auto table = EncodingTable::from_json(json);
  ASSERT_FALSE(table.ok()) << json;
  for (const std::string_view word : words) {
    EXPECT_NE(table.error().message.find(word), std::string::npos) << word << " is not in: " << table.error().message;
  }
}

TEST(EncodingTable, RoundTripIsExact) {
  EncodingTable table;
  ASSERT_TRUE(table.set_calibration({{"samples", 32}, {"method", "mse"}, {"share", 0.1}, {"text", "a \"b\" é"}}).ok());
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    // Any positive normal float that is small enough, any finite floats.
    const auto any = [&] {
      float x = std::numeric_limits<float>::infinity();
      while (!std::isfinite(x)) x = std::bit_cast<float>(static_cast<uint32_t>(random()));
      return x;
    };
    TensorEncoding e;
    e.dtype = i % 2 == 0 ? DType::kU16 : DType::kU8;
    do {
      e.encoding = {ir::EncodingKind::kPerTensor, std::fabs(any()), static_cast<int32_t>(random() % 256)};
    } while (!std::isnormal(e.encoding.scale) || e.encoding.scale > 1e33f);
    e.observed_min = any();
    e.observed_max = any();
    if (e.observed_min > e.observed_max) std::swap(e.observed_min, e.observed_max);
    if (i % 3 != 0) e.clipped = static_cast<double>(random()) / 4294967296.0;
    if (i % 5 != 0) e.sqnr_db = static_cast<double>(any());
    ASSERT_TRUE(table.set("layers." + std::to_string(i) + ".x", e).ok());
  }
  const std::string text = table.to_json();
  const auto again = EncodingTable::from_json(text);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_TRUE(*again == table);
  EXPECT_EQ(again->to_json(), text);
  for (const auto& [name, e] : table.entries()) {
    const TensorEncoding* found = again->find(name);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(std::bit_cast<uint32_t>(found->encoding.scale), std::bit_cast<uint32_t>(e.encoding.scale));
    EXPECT_EQ(std::bit_cast<uint32_t>(found->observed_max), std::bit_cast<uint32_t>(e.observed_max));
  }
}

TEST(EncodingTable, NamesInNaturalOrder) {
  EncodingTable table;
  for (const char* name :
       {"layers.10.a", "layers.2.b", "logits", "layers.2.a", "embedding.out", "layers.02.a", "layers.2"}) {
    ASSERT_TRUE(table.set(name, entry(0.5f, 3)).ok());
  }
  std::vector<std::string> names;
  for (const auto& [name, e] : table.entries()) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"embedding.out", "layers.2", "layers.02.a", "layers.2.a", "layers.2.b",
                                             "layers.10.a", "logits"}));
  const NaturalOrder before;
  EXPECT_FALSE(before("a1", "a1"));
  EXPECT_NE(before("a1", "a01"), before("a01", "a1"));
  EXPECT_TRUE(before("a99999999999999999998", "a99999999999999999999"));
  EXPECT_TRUE(before("", "a"));
  EXPECT_TRUE(before("a0", "a00"));
}

TEST(EncodingTable, NaturalOrderIsAStrictWeakOrder) {
  // All strings of up to four of these characters, in all pairs and triples of a sample.
  const NaturalOrder before;
  std::mt19937 random(2);
  const auto any = [&] {
    std::string text(random() % 5, ' ');
    for (char& c : text) c = "019.a"[random() % 5];
    return text;
  };
  for (int i = 0; i < 200'000; ++i) {
    const std::string a = any(), b = any(), c = any();
    if (before(a, b)) {
      ASSERT_FALSE(before(b, a)) << a << " " << b;
      ASSERT_TRUE(!before(b, c) || before(a, c)) << a << " " << b << " " << c;
    } else if (!before(b, a)) {
      ASSERT_EQ(a, b);
    }
  }
}

TEST(EncodingTable, ReadsHandWrittenFiles) {
  const auto table =
      EncodingTable::from_json(R"({"version":1,"encodings":{"a":{"dtype":"u8","scale":0.5,"zero_point":128},)"
                               R"("b":{"dtype":"u16","scale":1,"zero_point":0,"min":-1,"max":3}}})");
  ASSERT_TRUE(table.ok()) << table.error().message;
  const TensorEncoding* a = table->find("a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->observed_min, -64.0f);
  EXPECT_EQ(a->observed_max, 63.5f);
  EXPECT_TRUE(std::isnan(a->sqnr_db));
  EXPECT_EQ(a->method, "given");
  EXPECT_EQ(table->find("b")->observed_max, 3.0f);
  EXPECT_EQ(table->find("c"), nullptr);
  EXPECT_TRUE(EncodingTable::from_json(R"({"version":1,"encodings":{}})").ok());
  EXPECT_TRUE(EncodingTable::from_json(EncodingTable().to_json()).ok());
}

TEST(EncodingTable, RefusesHostileFiles) {
  expect_error("", {"JSON"});
  expect_error("[]", {"object"});
  expect_error("{}", {"version"});
  expect_error(R"({"version":"1","encodings":{}})", {"version"});
  expect_error(R"({"version":2,"encodings":{},"new":1})", {"version 2"});
  expect_error(R"({"version":18446744073709551615,"encodings":{}})", {"version"});
  expect_error(R"({"version":1})", {"encodings"});
  expect_error(R"({"version":1,"encodings":[]})", {"encodings"});
  expect_error(R"({"version":1,"encodings":{},"extra":1})", {"extra"});
  expect_error(R"({"version":1,"calibration":[],"encodings":{}})", {"calibration"});
  expect_error(R"({"version":1,"calibration":{"t":")" + std::string(70'000, 'x') + R"("},"encodings":{}})",
               {"calibration", "64 KiB"});
  expect_error(file_with(R"("t":1)"), {"\"t\"", "object"});
  expect_error(file_with(R"("t":{})"), {"\"t\"", "dtype, scale and zero_point"});
  expect_error(file_with(R"("t":{"dtype":"u16","scale":1})"), {"\"t\"", "zero_point"});
  expect_error(file_with(R"("":{"dtype":"u16","scale":1,"zero_point":0})"), {"1 to 256"});
  expect_error(file_with("\"" + std::string(300, 'n') + R"(":{"dtype":"u16","scale":1,"zero_point":0})"), {"1 to 256"});
  expect_error(file_with(R"("\u001b[2J":{"dtype":"u16","scale":1,"zero_point":0})"), {"\\u001b", "control"});
  expect_error(
      file_with(R"("t":{"dtype":"u16","scale":1,"zero_point":0},"t":{"dtype":"u16","scale":2,"zero_point":0})"),
      {"\"t\"", "twice"});
  expect_error(R"({"version":1,"version":1,"encodings":{}})", {"version", "twice"});

  const auto with = [](std::string_view dtype, std::string_view scale, std::string_view zero_point,
                       std::string_view more = "") {
    return file_with("\"t.x\":{\"dtype\":" + std::string(dtype) + ",\"scale\":" + std::string(scale) +
                     ",\"zero_point\":" + std::string(zero_point) + std::string(more) + "}");
  };
  ASSERT_TRUE(EncodingTable::from_json(with("\"u16\"", "1e-3", "65535")).ok());
  for (const char* dtype : {"\"f32\"", "\"i8\"", "\"i32\"", "\"u4\"", "\"\"", "6", "null", "[]"}) {
    expect_error(with(dtype, "1", "0"), {"t.x", "dtype"});
  }
  for (const char* scale : {"0", "-1", "1e-39", "1e39", "1e300", "-0.0", "\"1\"", "null", "{}", "3e38"}) {
    expect_error(with("\"u16\"", scale, "0"), {"t.x", "scale"});
  }
  expect_error(with("\"u16\"", "1e400", "0"), {"JSON"});
  expect_error(with("\"u16\"", "NaN", "0"), {"JSON"});
  for (const char* zero : {"-1", "65536", "0.5", "1e3", "18446744073709551615", "\"0\"", "null"}) {
    expect_error(with("\"u16\"", "1", zero), {"t.x", "zero_point"});
  }
  expect_error(with("\"u8\"", "1", "256"), {"t.x", "zero point 256", "u8"});
  expect_error(with("\"u8\"", "1", "0", R"(,"bits":8)"), {"t.x", "bits"});
  expect_error(with("\"u8\"", "1", "0", R"(,"min":1)"), {"t.x", "min and max"});
  expect_error(with("\"u8\"", "1", "0", R"(,"min":1,"max":0)"), {"t.x", "range"});
  expect_error(with("\"u8\"", "1", "0", R"(,"min":-1e39,"max":0)"), {"t.x", "min"});
  expect_error(with("\"u8\"", "1", "0", R"(,"clipped":1.5)"), {"t.x", "clipped"});
  expect_error(with("\"u8\"", "1", "0", R"(,"clipped":null)"), {"t.x", "clipped"});
  expect_error(with("\"u8\"", "1", "0", R"(,"sqnr_db":"high")"), {"t.x", "sqnr_db"});
  expect_error(with("\"u8\"", "1", "0", R"(,"method":7)"), {"t.x", "method"});
  expect_error(with("\"u8\"", "1", "0", R"(,"method":"")"), {"t.x", "method"});

  std::string deep = R"({"version":1,"encodings":{},"calibration":)";
  for (int i = 0; i < 100'000; ++i) deep += R"({"a":)";
  expect_error(deep, {"nested"});
  // Every prefix of a good file is an error.
  EncodingTable table;
  ASSERT_TRUE(table.set("t", entry(0.25f, 7)).ok());
  const std::string good = table.to_json();
  for (size_t i = 0; i + 2 < good.size(); ++i) EXPECT_FALSE(EncodingTable::from_json(good.substr(0, i)).ok()) << i;
}

TEST(EncodingTable, RefusesTooManyEntries) {
  std::string body;
  for (int i = 0; i <= 65536; ++i) {
    body += (i == 0 ? "\"" : ",\"") + std::to_string(i) + R"(":{"dtype":"u8","scale":1,"zero_point":0})";
  }
  expect_error(file_with(body), {"65536"});
  // And many values that are not entries.
  std::string list = R"({"version":1,"encodings":{},"calibration":{"a":[0)";
  for (int i = 0; i < 2'000'000; ++i) list += ",0";
  expect_error(list + "]}}", {"more than", "values"});
}

TEST(EncodingTable, SetRefusesWhatCouldNotBeWritten) {
  EncodingTable table;
  EXPECT_FALSE(table.set("", entry(1.0f, 0)).ok());
  EXPECT_FALSE(table.set("bad \xff utf-8", entry(1.0f, 0)).ok());
  EXPECT_FALSE(table.set("t", entry(std::numeric_limits<float>::quiet_NaN(), 0)).ok());
  EXPECT_FALSE(table.set("t", entry(1.0f, 256, DType::kU8)).ok());
  EXPECT_FALSE(table.set("t", entry(1.0f, 0, DType::kF16)).ok());
  TensorEncoding plain = entry(1.0f, 0);
  plain.encoding.kind = ir::EncodingKind::kPlain;
  EXPECT_FALSE(table.set("t", plain).ok());
  TensorEncoding endless = entry(1.0f, 0);
  endless.sqnr_db = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(table.set("t", endless).ok());
  EXPECT_EQ(table.size(), 0u);
  EXPECT_TRUE(table.set("t", entry(1.0f, 0)).ok());
  EXPECT_TRUE(table.set("t", entry(2.0f, 0)).ok());
  EXPECT_EQ(table.size(), 1u);
  EXPECT_EQ(table.find("t")->encoding.scale, 2.0f);
  EXPECT_FALSE(table.set_calibration(Json::array()).ok());
  Json nested = Json::object();
  for (int i = 0; i < 100; ++i) nested = {{"a", nested}};
  EXPECT_FALSE(table.set_calibration(nested).ok());
  // What JSON cannot express is null from the start, not only after the round trip.
  ASSERT_TRUE(table.set_calibration({{"x", std::numeric_limits<double>::quiet_NaN()}}).ok());
  EXPECT_TRUE(*EncodingTable::from_json(table.to_json()) == table);
}

TEST(EncodingTable, SavesAndLoadsFiles) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("tandem_encodings_" + std::to_string(::getpid()) + ".json");
  EncodingTable table;
  ASSERT_TRUE(table.set("t", entry(0.25f, 7)).ok());
  ASSERT_TRUE(table.save(path).ok());
  const auto again = EncodingTable::load(path);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_TRUE(*again == table);
  std::filesystem::resize_file(path, 40);
  const auto broken = EncodingTable::load(path);
  ASSERT_FALSE(broken.ok());
  EXPECT_NE(broken.error().message.find(path.string()), std::string::npos);
  std::filesystem::remove(path);
  EXPECT_FALSE(EncodingTable::load(path).ok());
}

}  // namespace encoding_table_test
}  // namespace tandem

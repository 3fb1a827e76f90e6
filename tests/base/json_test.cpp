#include "base/json.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace tandem {
namespace json_test {

std::string nested(int depth, char open, char close) {
  return std::string(static_cast<size_t>(depth), open) + std::string(static_cast<size_t>(depth), close);
}

Json parse(std::string_view text) {
  auto json = parse_json(text, "test");
  EXPECT_TRUE(json.ok()) << json.error().message;
  return json.ok() ? *std::move(json) : Json();
}

TEST(ParseJson, BrokenTextIsAnErrorThatNamesTheSource) {
  for (const std::string_view text :
       {"", "{", "[1,", "{\"a\":}", "nul", "{} {}", "'a'", "\"\xff\"", "{\"a\":1e999999}", "[1 2]", "\"abc"}) {
    const auto json = parse_json(text, "config.json");
    ASSERT_FALSE(json.ok()) << text;
    EXPECT_EQ(json.error().code, ErrorCode::kCorrupt);
    EXPECT_EQ(json.error().message.find("config.json"), 0u) << json.error().message;
  }
}

TEST(ParseJson, DepthIsBounded) {
  EXPECT_TRUE(parse_json(nested(256, '[', ']'), "x").ok());
  // Deep enough to overflow the stack of any recursion.
  for (const int depth : {257, 1'000'000}) {
    const auto closed = parse_json(nested(depth, '[', ']'), "x");
    ASSERT_FALSE(closed.ok());
    EXPECT_NE(closed.error().message.find("256"), std::string::npos) << closed.error().message;
    EXPECT_FALSE(parse_json(std::string(static_cast<size_t>(depth), '['), "x").ok());
  }
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  EXPECT_FALSE(parse_json(objects, "x").ok());
  // Many, but not deep.
  std::string flat = "[";
  for (int i = 0; i < 1000; ++i) flat += "[[]],";
  EXPECT_TRUE(parse_json(flat + "[]]", "x").ok());
}

TEST(ParseJson, ObjectsOfManyObjectsTakeLinearTime) {
  std::string text = "{";
  for (int i = 0; i < 200'000; ++i) text += "\"k" + std::to_string(i) + "\":{\"a\":[1]},";
  const auto start = std::chrono::steady_clock::now();
  const Json json = parse(text + "\"last\":{}}");
  // Quadratic time took minutes.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  EXPECT_EQ(json.size(), 200'001u);
  EXPECT_EQ(json["k777"]["a"][0], 1);
}

TEST(ParseJson, BuildsWhatTheTextSays) {
  const char* text = R"({"a":[1,-2,3.5,true,null,"x",{"b":[]},[[]],{}],"c":{"d":{"e":""}},"f":18446744073709551615})";
  EXPECT_EQ(parse(text), Json::parse(text));
  EXPECT_EQ(parse("[]"), Json::array());
  EXPECT_EQ(parse(" \"s\" "), Json("s"));
  EXPECT_EQ(parse(R"({"a":1,"a":{"b":2}})")["a"]["b"], 2);  // The last one wins.
}

// A few megabytes of brackets would fill gigabytes.
TEST(Json, RefusesMoreValuesThanMemoryShouldHold) {
  std::string text = "[";
  for (int i = 0; i < 8'100'000; ++i) text += "1,";
  text += "1]";
  const Result<Json> json = parse_json(text, "a bomb");
  ASSERT_FALSE(json.ok());
  EXPECT_EQ(json.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(json.error().message.find("values"), std::string::npos) << json.error().message;
}

TEST(JsonLookUps, ValuesOfTheRightType) {
  const Json json =
      parse(R"({"i": -7, "whole": 12.0, "f": 0.5, "b": true, "s": "text", "one": 3, "many": [1, 2.0, 3]})");
  EXPECT_EQ(*json_int(json, "i"), -7);
  EXPECT_EQ(*json_int(json, "whole"), 12);
  EXPECT_EQ(*json_number(json, "i"), -7.0);
  EXPECT_EQ(*json_number(json, "f"), 0.5);
  EXPECT_EQ(*json_bool(json, "b"), true);
  EXPECT_EQ(*json_string(json, "s"), "text");
  EXPECT_EQ(*json_ints(json, "one"), std::vector<int64_t>{3});
  EXPECT_EQ(*json_ints(json, "many"), (std::vector<int64_t>{1, 2, 3}));
}

TEST(JsonLookUps, AbsentAndNullGiveNothing) {
  for (const Json& json : {parse("{}"), parse(R"({"k": null})"), parse("[1]"), parse("3"), parse("null")}) {
    EXPECT_EQ(*json_int(json, "k"), std::nullopt);
    EXPECT_EQ(*json_number(json, "k"), std::nullopt);
    EXPECT_EQ(*json_bool(json, "k"), std::nullopt);
    EXPECT_EQ(*json_string(json, "k"), std::nullopt);
    EXPECT_TRUE(json_ints(json, "k")->empty());
  }
}

TEST(JsonLookUps, OtherTypesAreErrorsThatNameTheKey) {
  const char* others[] = {"\"text\"", "true", "[1]", "{}", "1.5"};
  for (const char* value : others) {
    const Json json = parse(std::string(R"({"key": )") + value + "}");
    const auto number = json_int(json, "key");
    ASSERT_FALSE(number.ok()) << value;
    EXPECT_NE(number.error().message.find("\"key\""), std::string::npos) << number.error().message;
  }
  EXPECT_FALSE(json_number(parse(R"({"k": "1"})"), "k").ok());
  EXPECT_FALSE(json_bool(parse(R"({"k": 1})"), "k").ok());
  EXPECT_FALSE(json_string(parse(R"({"k": 1})"), "k").ok());
  EXPECT_FALSE(json_ints(parse(R"({"k": [1, "2"]})"), "k").ok());
  EXPECT_FALSE(json_ints(parse(R"({"k": [[1]]})"), "k").ok());
  EXPECT_FALSE(json_ints(parse(R"({"k": [null]})"), "k").ok());
}

TEST(JsonLookUps, TheEdgesOfIntegers) {
  EXPECT_EQ(*json_int(parse(R"({"k": 9223372036854775807})"), "k"), INT64_MAX);
  EXPECT_EQ(*json_int(parse(R"({"k": -9223372036854775808})"), "k"), INT64_MIN);
  EXPECT_FALSE(json_int(parse(R"({"k": 9223372036854775808})"), "k").ok());
  EXPECT_FALSE(json_int(parse(R"({"k": 18446744073709551615})"), "k").ok());
  EXPECT_FALSE(json_int(parse(R"({"k": 1e30})"), "k").ok());
  EXPECT_FALSE(json_int(parse(R"({"k": -1e300})"), "k").ok());
}

TEST(DumpJson, BrokenUtf8DoesNotThrow) {
  Json json;
  json["k"] = "a\xff\xfe z";
  const std::string text = dump_json(json);
  EXPECT_TRUE(parse_json(text, "x").ok()) << text;
  EXPECT_EQ(dump_json(Json{{"a", 1}}), "{\"a\":1}");
  EXPECT_EQ(dump_json(Json{{"a", 1}}, 2), "{\n  \"a\": 1\n}");
}

}  // namespace json_test
}  // namespace tandem

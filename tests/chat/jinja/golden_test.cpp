// Templates of real models, and what Jinja2 renders from them.
#include <filesystem>

#include "base/mapped_file.h"
#include "chat/jinja/jinja_test.h"

namespace tandem::jinja {
namespace golden_test {

namespace fs = std::filesystem;

Value text_value(const Value& dict, std::string_view key) {
  const Value* value = dict.dict().find(key);
  return value == nullptr ? Value() : *value;
}

TEST(Golden, RealTemplatesToTheByte) {
  const fs::path folder = fs::path(TANDEM_SOURCE_DIR) / "../shared/golden/chat";
  if (!fs::exists(folder)) GTEST_SKIP() << "the templates of other people's models are not here";
  int cases = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const auto source = read_text_file(entry.path() / "template.jinja", 1 << 20);
    const auto json = read_text_file(entry.path() / "cases.json", 1 << 24);
    ASSERT_TRUE(source.ok() && json.ok()) << entry.path();
    const auto parsed = Template::parse(*source);
    ASSERT_TRUE(parsed.ok()) << entry.path() << ": " << parsed.error().message;
    const auto file = parse_json_value(*json, "cases.json");
    ASSERT_TRUE(file.ok()) << file.error().message;
    RenderOptions options;
    options.now = *parse_iso_time(text_value(*file, "now").text());
    for (const Value& item : text_value(*file, "cases").items()) {
      auto variables = std::make_shared<DictObject>();
      variables->set(Value::string("tools"), Value::none());
      variables->set(Value::string("documents"), Value::none());
      for (const char* token : {"bos_token", "eos_token"}) {
        if (text_value(*file, token).is_string()) variables->set(Value::string(token), text_value(*file, token));
      }
      for (const char* key : {"messages", "add_generation_prompt", "tools", "documents"}) {
        if (item.dict().find(key) != nullptr) variables->set(Value::string(key), text_value(item, key));
      }
      for (const auto& [key, value] : text_value(item, "kwargs").dict().items) variables->set(key, value);
      const auto text = parsed->render(Value::object(Kind::kDict, variables), options);
      const std::string name = entry.path().filename().string() + "/" + text_value(item, "conversation").text();
      ++cases;
      if (const Value error = text_value(item, "error"); error.is_string()) {
        ASSERT_FALSE(text.ok()) << name;
        EXPECT_EQ(text.error().message, error.text()) << name;
      } else {
        ASSERT_TRUE(text.ok()) << name << ": " << text.error().message;
        EXPECT_EQ(*text, text_value(item, "rendered").text()) << name;
      }
    }
  }
  EXPECT_GE(cases, 100);
  RecordProperty("cases", cases);
}

// 2,000 messages of a megabyte take a small share of the steps that a rendering has.
TEST(Golden, RealTemplatesRenderLongConversations) {
  const fs::path folder = fs::path(TANDEM_SOURCE_DIR) / "../shared/golden/chat";
  if (!fs::exists(folder)) GTEST_SKIP() << "the templates of other people's models are not here";
  std::string json = R"({"bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": true, "messages": [)";
  for (int i = 0; i < 2'000; ++i) {
    json += (i > 0 ? "," : "") + std::string(i % 2 == 0 ? R"({"role": "user")" : R"({"role": "assistant")") +
            R"(, "content": ")";
    for (int k = 0; k < 50; ++k) json += "Grüße, 日本!";
    json += "\"}";
  }
  const auto variables = parse_json_value(json + "]}", "the conversation");
  ASSERT_TRUE(variables.ok());
  for (const auto& entry : fs::directory_iterator(folder)) {
    const auto source = read_text_file(entry.path() / "template.jinja", 1 << 20);
    ASSERT_TRUE(source.ok()) << entry.path();
    const auto parsed = Template::parse(*source);
    ASSERT_TRUE(parsed.ok()) << entry.path() << ": " << parsed.error().message;
    RenderOptions options;
    options.limits.steps /= 4;
    const auto text = parsed->render(*variables, options);
    ASSERT_TRUE(text.ok()) << entry.path() << ": " << text.error().message;
    EXPECT_GT(text->size(), 1'000'000u) << entry.path();
  }
}

}  // namespace golden_test
}  // namespace tandem::jinja

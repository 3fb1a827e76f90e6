#include "chat/chat_template.h"

#include <gtest/gtest.h>

#include "tokenizer/tokenizer_test_data.h"

namespace tandem {
namespace chat_template_test {

const std::vector<Message> kMessages = {{"system", "Be brief."}, {"user", "Hi\nthere"}};

std::string render(const ChatTemplateSource& source, std::string_view variables = "", bool prompt = true) {
  const auto chat = ChatTemplate::create(source);
  if (!chat.ok()) return "error: " + chat.error().message;
  const auto text = chat->render(kMessages, prompt, variables);
  return text.ok() ? *text : "error: " + text.error().message;
}

TEST(ChatTemplate, ChatMlForVocabulariesThatHaveItsTokens) {
  const auto tokenizer = load_demo_tokenizer();
  ASSERT_TRUE(tokenizer.ok());
  const auto chatml = make_chat_template({}, &*tokenizer);
  ASSERT_TRUE(chatml.ok()) << chatml.error().message;
  EXPECT_EQ(*(*chatml)->render(kMessages, true),
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi\nthere<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(*(*chatml)->render(std::span(kMessages).last(1), false), "<|im_start|>user\nHi\nthere<|im_end|>\n");
  EXPECT_EQ(*(*chatml)->render(std::span<const Message>(), true), "<|im_start|>assistant\n");

  const auto none = make_chat_template({}, nullptr);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, ErrorCode::kNotFound);
  EXPECT_NE(none.error().message.find("`generate()`"), std::string::npos);
}

TEST(ChatTemplate, TokensAndVariables) {
  const ChatTemplateSource source = {
      .text = "{{ bos_token }}|{{ eos_token }}|{{ pad_token }}|{{ tools }}|{{ x }}|{{ add_generation_prompt }}",
      .bos_token = "<s>",
      .special_tokens = R"({"pad_token": "<pad>"})"};
  EXPECT_EQ(render(source), "<s>||<pad>|None||True");
  EXPECT_EQ(render(source, R"({"x": [1, {"b": 2, "a": 1}], "eos_token": "E", "bos_token": null})", false),
            "|E|<pad>|None|[1, {'b': 2, 'a': 1}]|False");
  EXPECT_EQ(render({.text = "{{ strftime_now('%Y') }}{{ now is defined }}"}, R"({"now": "1999-12-31T23:59:59"})"),
            "1999False");
  EXPECT_NE(render(source, "[1]").find("error: "), std::string::npos);
  EXPECT_NE(render(source, "{").find("error: "), std::string::npos);
  EXPECT_NE(render(source, R"({"now": "yesterday"})").find("ISO"), std::string::npos);
}

TEST(ChatTemplate, ToolsHaveATemplateOfTheirOwn) {
  const ChatTemplateSource source = {.text = "plain", .tool_use = "with {{ tools|length }}"};
  EXPECT_EQ(render(source), "plain");
  EXPECT_EQ(render(source, R"({"tools": null})"), "plain");
  EXPECT_EQ(render(source, R"({"tools": [1, 2]})"), "with 2");
  EXPECT_EQ(render({.text = "plain"}, R"({"tools": [1, 2]})"), "plain");
}

TEST(ChatTemplate, MessagesHaveOtherFields) {
  const auto chat = ChatTemplate::create(
      {.text = "{% for m in messages %}{{ m.role }}:{{ m.reasoning_content }}:{{ m|tojson }};{% endfor %}"});
  ASSERT_TRUE(chat.ok());
  const std::vector<Message> messages = {{"user", "Hi"},
                                         {"assistant", "Yes", R"({"reasoning_content": "hm", "tool_calls": []})"}};
  EXPECT_EQ(*chat->render(messages, false),
            "user::{\"role\": \"user\", \"content\": \"Hi\"};"
            "assistant:hm:{\"role\": \"assistant\", \"content\": \"Yes\", \"reasoning_content\": \"hm\", "
            "\"tool_calls\": []};");
  EXPECT_FALSE(chat->render(std::vector<Message>{{"user", "\xff"}}, false).ok());
}

TEST(ChatTemplate, BadJsonIsABadArgument) {
  const auto chat = ChatTemplate::create({.text = "{{ messages|length }}"});
  ASSERT_TRUE(chat.ok());
  const std::vector<Message> good = {{"user", "x"}};
  EXPECT_EQ(*chat->render(good, false, "{}"), "1");
  using namespace std::string_literals;
  for (const std::string& bad : {"no json"s, "[]"s, "{"s, "{\"a\": \"\xff\"}"s, "{}\0"s, "3"s}) {
    EXPECT_EQ(chat->render(good, false, bad).status().error().code, ErrorCode::kInvalidArgument) << bad;
    const std::vector<Message> messages = {{"user", "x", bad}};
    EXPECT_EQ(chat->render(messages, false).status().error().code, ErrorCode::kInvalidArgument) << bad;
  }
}

TEST(ChatTemplate, ReportsErrorsOfTheModelsTemplate) {
  EXPECT_EQ(render({.text = "{{ raise_exception('System role not supported') }}"}), "error: System role not supported");
  const auto broken = make_chat_template({.text = "{% for %}"}, nullptr);
  ASSERT_FALSE(broken.ok());
  EXPECT_NE(broken.error().message.find("the model's chat template cannot be used: line 1"), std::string::npos)
      << broken.error().message;
}

}  // namespace chat_template_test
}  // namespace tandem

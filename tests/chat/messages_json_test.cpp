// Conversations as JSON.
#include "chat/messages_json.h"

#include <gtest/gtest.h>

#include "chat/chat_template.h"

namespace tandem {
namespace messages_json_test {

TEST(MessagesJson, EachMessageKeepsWhatWasWritten) {
  const std::string first = R"({"role": "user", "content": "a \"b\", [c] {d} \\"})";
  const std::string second = R"( {"tool_calls": [{"z": 1, "a": [2, "]"]}], "role":"assistant", "content": null} )";
  const auto messages = parse_messages(" [" + first + ",\n" + second + "]\n");
  ASSERT_TRUE(messages.ok()) << messages.error().message;
  ASSERT_EQ(messages->size(), 2u);
  EXPECT_EQ((*messages)[0].role, "user");
  EXPECT_EQ((*messages)[0].content, R"(a "b", [c] {d} \)");
  EXPECT_EQ((*messages)[0].fields, first);
  EXPECT_EQ((*messages)[1].role, "assistant");
  EXPECT_EQ((*messages)[1].content, "");
  EXPECT_EQ((*messages)[1].fields, "\n" + second);
  EXPECT_TRUE(parse_messages("[]")->empty());
  EXPECT_TRUE(parse_messages(" [ ] ")->empty());
  EXPECT_EQ((*parse_messages(R"([{"role": "user"}])"))[0].content, "");
}

// The same text as from messages; keys in the order in which they were written, as the hub's templates print them.
TEST(MessagesJson, TemplatesSeeTheMessages) {
  const auto chat = ChatTemplate::create(
      {"{% for m in messages %}{{ m.role }}:{{ m.content }}:{{ m.tool_calls | tojson }};{% endfor %}"});
  ASSERT_TRUE(chat.ok()) << chat.error().message;
  const auto messages = parse_messages(
      R"([{"role": "user", "content": "\u2602 hi", "tool_calls": {"z": 1, "a": 2}},
          {"role": "tool", "content": ["part"], "tool_calls": 3}])");
  ASSERT_TRUE(messages.ok()) << messages.error().message;
  const auto text = chat->render(*messages, false);
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_EQ(*text, "user:☂ hi:{\"z\": 1, \"a\": 2};tool:['part']:3;");
}

TEST(MessagesJson, AnythingElseIsRefused) {
  for (const std::string_view wrong :
       {"", " ", "{}", "null", "1", "[", "[1]", "[{}]", "[null]", "[[]]", R"([{"role": 1}])", R"([{"role": null}])",
        R"([{"content": "a"}])", R"([{"role": "user"},])", "[] []", "\xff", "[{\"role\": \"\xff\"}]",
        R"({"role": "user", "content": "a"})", R"("[{\"role\": \"user\"}]")"}) {
    const auto messages = parse_messages(wrong);
    ASSERT_FALSE(messages.ok()) << wrong;
    EXPECT_EQ(messages.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(messages.error().message.find("conversation"), std::string::npos) << messages.error().message;
  }
  EXPECT_FALSE(parse_messages(std::string_view("[]\0[]", 5)).ok());
  EXPECT_FALSE(parse_messages(std::string(100000, '[')).ok());
}

}  // namespace messages_json_test
}  // namespace tandem

#include "text/chat_template.h"

#include <gtest/gtest.h>

#include "text/text_test_data.h"

namespace tandem {
namespace {

TEST(ChatTemplate, RendersChatMl) {
  const auto chatml = make_chatml_template();
  const std::vector<Message> messages = {{"system", "Be brief."}, {"user", "Hi\nthere"}};
  EXPECT_EQ(*chatml->render(messages, true),
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi\nthere<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(*chatml->render(std::span(messages).last(1), false), "<|im_start|>user\nHi\nthere<|im_end|>\n");
  EXPECT_EQ(*chatml->render({}, true), "<|im_start|>assistant\n");
}

TEST(ChatTemplate, RecognisesChatMlInItsSpellings) {
  for (const char* source :
       {"{%- for message in messages %}{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' "
        "}}{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}",
        "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + "
        "'\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
        "{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{% for message "
        "in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% "
        "endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
        "{% for message in messages %}\n    {{ (\"<|im_start|>\" + message[\"role\"] + \"\\n\" + message[\"content\"] "
        "+ "
        "\"<|im_end|>\\n\") -}}\n{% endfor %}\n{%- if add_generation_prompt -%}\n  {{- \"<|im_start|>\" + "
        "\"assistant\\n\" -}}\n{%- endif -%}\n"}) {
    // The last one keeps the spaces before its first expression.
    const bool spaces = std::string_view(source).find("    {{ (") != std::string_view::npos;
    EXPECT_EQ(is_chatml_template(source), !spaces) << source;
    EXPECT_EQ(make_chat_template(source, true).ok(), !spaces);
  }
  EXPECT_TRUE(is_chatml_template(
      "{%- for message in messages -%}\n    {{ (\"<|im_start|>\" + message[\"role\"] + \"\\n\" + message[\"content\"] "
      "+ "
      "\"<|im_end|>\\n\") -}}\n{% endfor %}\n{% if add_generation_prompt %}\n  {{- \"<|im_start|>\" + "
      "\"assistant\\n\" -}}\n{% endif %}\n"));
}

TEST(ChatTemplate, RefusesEverythingElse) {
  for (const char* source : {"{{ messages }}", "plain text", "{% for message in messages %}", "{{ 'unfinished", "{#",
                             "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + "
                             "message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}",
                             "{% for message in messages %}{{'<|im_start|>' + message['role'] + ' ' + "
                             "message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ "
                             "'<|im_start|>assistant\\n' }}{% endif %}"}) {
    EXPECT_FALSE(is_chatml_template(source)) << source;
    const auto made = make_chat_template(source, true);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().code, ErrorCode::kUnsupported);
    EXPECT_NE(made.error().message.find("--no-template"), std::string::npos);
  }
}

TEST(ChatTemplate, AbsentTemplateIsChatMlOnlyWithItsTokens) {
  EXPECT_TRUE(make_chat_template("", true).ok());
  const auto made = make_chat_template("", false);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, ErrorCode::kNotFound);
}

TEST(ChatTemplate, KnowsTheDemoModelsAndNotTheOthers) {
  const std::filesystem::path config = shared_data("demo-model/checkpoint/tokenizer_config.json");
  if (!std::filesystem::exists(config)) GTEST_SKIP() << "no demo model here";
  EXPECT_TRUE(is_chatml_template(load_json(config).at("chat_template").get<std::string>()));
  // These add turns of their own, or are of another kind.
  for (const char* family : {"qwen2_5", "qwen3", "smollm2", "llama3_2", "gemma3", "phi4_mini"}) {
    const Result<std::string> source = read_text_file(shared_data("golden/chat") / family / "template.jinja", 1 << 20);
    ASSERT_TRUE(source.ok()) << source.error().message;
    EXPECT_FALSE(is_chatml_template(*source)) << family;
  }
}

}  // namespace
}  // namespace tandem

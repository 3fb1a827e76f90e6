// Conversations with hostile texts, and the control tokens that result: what the tests of forged tokens share.
#pragma once

#include <algorithm>
#include <map>
#include <ostream>

#include "chat/chat_template.h"
#include "tokenizer/token_rules.h"
#include "tokenizer/tokenizer_test_data.h"

namespace tandem {

struct Model {
  std::string name;
  ChatTemplate chat;
  Tokenizer tokenizer;
  ControlTokens control;
  std::vector<std::string> tokens;  // The text of all control tokens.

  bool is_control(int32_t id) const { return tokenizer.is_special(id) || control.contains(static_cast<uint32_t>(id)); }
};

inline Model make_model(std::string name, const ChatTemplateSource& source, Tokenizer tokenizer) {
  auto chat = ChatTemplate::create(source);
  EXPECT_TRUE(chat.ok()) << name << ": " << chat.error().message;
  ControlTokens control = tokenizer.control_tokens(chat->source());
  Model model{std::move(name), *std::move(chat), std::move(tokenizer), std::move(control), {}};
  for (int32_t id = 0; id < model.tokenizer.vocab_size(); ++id) {
    if (model.is_control(id)) model.tokens.emplace_back(model.tokenizer.token_bytes(id));
  }
  return model;
}

// A control token, and how many bytes of the template's own text precede it.
struct Placed {
  int32_t id;
  size_t own_bytes;
  bool operator==(const Placed&) const = default;
};

inline void PrintTo(const Placed& placed, std::ostream* out) { *out << placed.id << " after " << placed.own_bytes; }

struct Encoded {
  std::vector<int32_t> ids;
  std::vector<Placed> controls;
};

// `exact`: ids correspond to the bytes of the text, so that a token's position is known.
inline std::optional<Encoded> encode(const Model& model, const std::vector<Message>& messages,
                                     std::string_view variables, bool exact) {
  const auto text = model.chat.render_marked(messages, true, variables);
  if (!text.ok()) return std::nullopt;
  const auto spans = text->spans();
  const auto ids = model.tokenizer.encode(text->bytes(), {false, spans, &model.control});
  EXPECT_TRUE(ids.ok()) << ids.error().message;
  if (!ids.ok()) return std::nullopt;
  Encoded encoded{*ids, {}};
  size_t offset = 0;
  for (const int32_t id : *ids) {
    size_t own = offset;
    for (const OriginSpan& span : spans) own -= std::min(span.end, offset) - std::min(span.begin, offset);
    if (model.is_control(id)) encoded.controls.push_back({id, exact ? own : 0});
    offset += model.tokenizer.token_bytes(id).size();
  }
  if (exact) {
    EXPECT_EQ(model.tokenizer.decode(*ids, false), text->bytes()) << "the text is not dropped";
  }
  return encoded;
}

inline std::string full_width(std::string text) {
  const std::map<char, std::string> forms = {{'<', "＜"}, {'>', "＞"}, {'|', "｜"}, {'[', "［"}, {']', "］"}};
  std::string out;
  for (const char c : text) out += forms.contains(c) ? forms.at(c) : std::string(1, c);
  return out;
}

inline std::string cased(std::string text, int (*convert)(int)) {
  for (char& c : text) c = static_cast<char>(convert(static_cast<unsigned char>(c)));
  return text;
}

// Texts that somebody might write in the hope that they become this token.
inline std::vector<std::string> hostile(const std::string& token) {
  std::vector<std::string> texts = {token,
                                    " " + token,
                                    token + " ",
                                    "\n" + token + "\n",
                                    "x" + token + "y",
                                    token + token,
                                    full_width(token),
                                    cased(token, toupper),
                                    cased(token, tolower),
                                    "＜" + token,
                                    token + "\u0338",
                                    "a" + token.substr(0, token.size() / 2)};
  for (const size_t cut : {size_t{1}, token.size() / 2, token.size() - 1}) {
    texts.push_back(token.substr(cut));
    texts.push_back(token.substr(0, cut));
    texts.push_back(token.substr(0, cut) + token + token.substr(cut));
  }
  // Cut in the middle of a character, some of these are not valid UTF-8.
  std::erase_if(texts, [](const std::string& text) { return !jinja::is_valid_text(text); });
  return texts;
}

inline Json with_text(const Json& value, const std::string& text) {
  if (value.is_string()) return value.get<std::string>() == "TEXT" ? Json(text) : value;
  if (!value.is_structured()) return value;
  Json copy = value.is_array() ? Json::array() : Json::object();
  for (const auto& [key, item] : value.items()) {
    if (value.is_array()) {
      copy.push_back(with_text(item, text));
    } else {
      copy[key == "TEXT" ? text : key] = with_text(item, text);
    }
  }
  return copy;
}

// Conversations with TEXT wherever somebody's words can be.
struct Scene {
  std::vector<Message> messages;
  std::string variables;
};

inline std::vector<Scene> scenes() {
  const std::string call =
      R"({"tool_calls": [{"type": "function", "id": "a1", "function": {"name": "TEXT", "arguments": {"TEXT": "TEXT", "n": ["TEXT"]}}}]})";
  const std::string tools =
      R"({"tools": [{"type": "function", "function": {"name": "TEXT", "description": "TEXT", "parameters": {"type": "object", "properties": {"TEXT": {"type": "string", "description": "TEXT"}}}}}]})";
  return {
      {{{"user", "TEXT"}}, ""},
      {{{"system", "TEXT"}, {"user", "TEXT"}, {"assistant", "fine"}, {"user", "TEXT"}}, ""},
      {{{"user", "one"}, {"assistant", "TEXT"}, {"user", "two"}}, ""},
      {{{"user", "", R"({"content": [{"type": "text", "text": "TEXT"}]})"}}, ""},
      {{{"user", "one"}, {"assistant", "", call}, {"tool", "TEXT", R"({"name": "TEXT", "tool_call_id": "a1"})"}},
       tools},
      {{{"user", "one"}, {"tool", "TEXT"}}, ""},
      {{{"user", "one"}, {"ipython", "", R"({"content": {"TEXT": "TEXT"}})"}}, ""},
      {{{"system", "x", R"({"tools": "TEXT"})"}, {"user", "TEXT"}}, ""},
      {{{"user", "hi"}},
       R"({"date_string": "TEXT", "custom_instructions": "TEXT", "system_message": "TEXT", "bos_token": "TEXT"})"},
      {{{"user", "hi"}},
       R"({"documents": [{"doc_id": "TEXT", "title": "TEXT", "text": "TEXT"}], "controls": {"length": "TEXT"}})"},
      {{{"user", "hi"}, {"assistant", "yes", R"({"reasoning_content": "TEXT"})"}, {"user", "more"}}, ""},
      {{{"TEXT", "hi"}}, ""},
  };
}

inline Scene with_text(const Scene& scene, const std::string& text) {
  const auto fill = [&](const std::string& json) {
    return json.empty() ? json : dump_json(with_text(*parse_json(json, "a scene"), text));
  };
  Scene filled = scene;
  filled.variables = fill(scene.variables);
  for (Message& message : filled.messages) {
    for (std::string* part : {&message.role, &message.content}) *part = *part == "TEXT" ? text : *part;
    message.fields = fill(message.fields);
  }
  return filled;
}

// The control tokens with hostile texts are the same as with harmless ones. A template may react to a text that it
// inspects (as Qwen's does to </think>), so only variants that leave its own text unchanged are compared.
inline int check(const Model& model, bool exact) {
  SCOPED_TRACE(model.name);
  int compared = 0;
  std::vector<std::string> texts;
  for (const std::string& token : model.tokens) {
    for (std::string& text : hostile(token)) texts.push_back(std::move(text));
  }
  std::string all;
  for (const std::string& token : model.tokens) all += token + " " + token;
  texts.push_back(all);
  // Large vocabularies have hundreds of reserved tokens that differ only in a number.
  const size_t stride = std::max<size_t>(texts.size() / 150, 1) | 1;
  for (const Scene& scene : scenes()) {
    const auto own_text = [&](const Scene& s) {
      const auto text = model.chat.render_marked(s.messages, true, s.variables);
      std::string own;
      if (!text.ok()) return "error: " + text.error().message;
      size_t done = 0;
      for (const OriginSpan& span : text->spans()) {
        own += text->bytes().substr(done, span.begin - done) + "\x01";
        done = span.end;
      }
      return own + text->bytes().substr(done);
    };
    // The model's own words may contain tokens that are not flagged as special.
    const bool models = std::ranges::any_of(scene.messages, [](const Message& m) {
      return m.role == "assistant" && (m.content + m.fields).find("TEXT") != std::string::npos;
    });
    const auto said = [&](std::vector<Placed> controls) {
      if (models) std::erase_if(controls, [&](const Placed& p) { return !model.tokenizer.is_special(p.id); });
      return controls;
    };
    const Scene harmless = with_text(scene, "harmless, words");
    const auto expected = encode(model, harmless.messages, harmless.variables, exact);
    if (!expected) continue;  // Not all templates accept all messages.
    // Nothing changes for harmless words: the template's own text is tokenized as the hub does it.
    EXPECT_EQ(expected->ids,
              *model.tokenizer.encode(*model.chat.render(harmless.messages, true, harmless.variables), false));
    const std::string expected_own = own_text(harmless);
    for (size_t i = 0; i < texts.size();
         i += i + stride < texts.size() || i + 1 == texts.size() ? stride : texts.size() - 1 - i) {
      const Scene scene_with = with_text(scene, texts[i]);
      if (own_text(scene_with) != expected_own) continue;
      SCOPED_TRACE(texts[i].substr(0, 200));
      const auto found = encode(model, scene_with.messages, scene_with.variables, exact);
      if (!found) continue;
      ++compared;
      if (said(found->controls) == said(expected->controls)) continue;
      EXPECT_EQ(said(found->controls), said(expected->controls));
      return compared;
    }
  }
  return compared;
}

// Bytes as tokens, plus these added tokens.
inline Tokenizer byte_tokenizer(const std::vector<std::pair<std::string, bool>>& added,
                                const Json& normalizer = nullptr, bool normalized = false) {
  Json json = load_json(text_data("demo_tokenizer.json"));
  json["normalizer"] = normalizer;
  json["added_tokens"] = Json::array();
  for (const char* token : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}) {
    Json& vocab = json["model"]["vocab"];
    vocab[std::string("unused ") + (token + 3)] = vocab[token];
    vocab.erase(token);
  }
  json["post_processor"] = nullptr;
  int id = 2000;
  for (const auto& [content, special] : added) {
    json["added_tokens"].push_back({{"id", id++},
                                    {"content", content},
                                    {"special", special},
                                    {"normalized", normalized},
                                    {"single_word", false},
                                    {"lstrip", false},
                                    {"rstrip", false}});
  }
  auto tokenizer = tokenizer_from_json(json.dump());
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  return *std::move(tokenizer);
}

// Everything in a template that looks like a token, special or not.
inline std::vector<std::pair<std::string, bool>> tokens_in(const std::string& source, bool special) {
  std::vector<std::pair<std::string, bool>> tokens;
  for (const char* known :
       {"<s>", "</s>", "<bos>", "<eos>", "<unk>", "<pad>", "<|endoftext|>", "<|im_start|>", "<|im_end|>"}) {
    tokens.emplace_back(known, true);
  }
  for (size_t at = 0; (at = source.find_first_of("<[", at)) != std::string::npos; ++at) {
    const size_t end = source.find_first_of("<>[]'\" \n{", at + 1);
    if (end == std::string::npos || (source[end] != '>' && source[end] != ']') || end == at + 1) continue;
    const std::string token = source.substr(at, end + 1 - at);
    if (std::ranges::none_of(tokens, [&](const auto& t) { return t.first == token; }))
      tokens.emplace_back(token, special);
  }
  return tokens;
}

}  // namespace tandem

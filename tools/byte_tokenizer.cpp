#include "byte_tokenizer.h"

#include <string>

namespace tandem::tools {
namespace {

// Byte-level BPE writes bytes as printable characters: those that are printable in Latin-1 stand for themselves, the
// others are numbered from U+0100 on.
std::string byte_character(int byte, int& next) {
  const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
  const int code = printable ? byte : 0x100 + next++;
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xc0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3f))};
}

Json added_token(const char* content, int64_t id) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

}  // namespace

Json byte_tokenizer() {
  Json vocab = Json::object();
  int next = 0;
  for (int byte = 0; byte < 256; ++byte) vocab[byte_character(byte, next)] = byte;
  const Json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", Json::array({added_token("<|endoftext|>", kEndOfText), added_token("<|im_start|>", kImStart),
                                        added_token("<|im_end|>", kImEnd)})},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level},
          {"post_processor", nullptr},
          {"decoder", byte_level},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", vocab},
            {"merges", Json::array()}}}};
}

Json chatml_tokenizer_config(int64_t context) {
  return {{"tokenizer_class", "PreTrainedTokenizerFast"},
          {"chat_template",
           "{%- for message in messages %}{{- '<|im_start|>' + message.role + '\\n' + message.content + "
           "'<|im_end|>\\n' }}{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}"
           "{%- endif %}"},
          {"eos_token", "<|im_end|>"},
          {"pad_token", "<|endoftext|>"},
          {"model_max_length", context}};
}

}  // namespace tandem::tools

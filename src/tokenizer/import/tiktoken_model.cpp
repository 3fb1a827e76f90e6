#include "tokenizer/import/tiktoken_model.h"

#include <charconv>
#include <optional>

#include "base/error.h"
#include "base/format.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/import/piece_merges.h"

namespace tandem {
namespace {

constexpr int kLlama3SpecialTokens = 256;
constexpr int kQwenExtraTokens = 205;

int base64_digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+') return 62;
  if (c == '/') return 63;
  return -1;
}

std::optional<std::string> decode_base64(std::string_view text) {
  if (text.empty() || text.size() % 4 != 0) return std::nullopt;
  std::string bytes;
  for (size_t i = 0; i < text.size(); i += 4) {
    uint32_t bits = 0;
    int padding = 0;
    for (size_t j = 0; j < 4; ++j) {
      const char c = text[i + j];
      // Padding comes last, and only in the last group.
      if (c == '=' && i + 4 == text.size() && j >= 2) {
        ++padding;
        bits <<= 6;
        continue;
      }
      const int digit = base64_digit(c);
      if (digit < 0 || padding > 0) return std::nullopt;
      bits = (bits << 6) | static_cast<uint32_t>(digit);
    }
    for (int j = 0; j < 3 - padding; ++j) bytes.push_back(static_cast<char>((bits >> (16 - 8 * j)) & 0xff));
  }
  return bytes;
}

struct Line {
  std::string bytes;
  uint32_t rank = 0;
};

std::optional<Line> read_line(std::string_view line) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  std::optional<std::string> bytes = decode_base64(line.substr(0, space));
  Line result;
  const char* end = line.data() + line.size();
  const auto [stop, error] = std::from_chars(line.data() + space + 1, end, result.rank);
  if (!bytes || error != std::errc() || stop != end || result.rank >= kMaxTokenId) return std::nullopt;
  result.bytes = *std::move(bytes);
  return result;
}

std::string_view take_line(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

void add_special(TokenizerSpec& spec, std::string content, uint32_t id) {
  AddedToken token;
  token.content = std::move(content);
  token.id = id;
  token.special = true;
  spec.added_tokens.push_back(std::move(token));
}

// The ids continue after the last rank.
void add_llama3_tokens(TokenizerSpec& spec, uint32_t first) {
  constexpr std::string_view kNamed[] = {"<|begin_of_text|>",
                                         "<|end_of_text|>",
                                         "<|reserved_special_token_0|>",
                                         "<|reserved_special_token_1|>",
                                         "<|finetune_right_pad_id|>",
                                         "<|reserved_special_token_2|>",
                                         "<|start_header_id|>",
                                         "<|end_header_id|>",
                                         "<|eom_id|>",
                                         "<|eot_id|>",
                                         "<|python_tag|>"};
  for (const std::string_view name : kNamed) {
    add_special(spec, std::string(name), first + static_cast<uint32_t>(spec.added_tokens.size()));
  }
  for (int reserved = 3; spec.added_tokens.size() < kLlama3SpecialTokens; ++reserved) {
    add_special(spec, str_format("<|reserved_special_token_{}|>", reserved),
                first + static_cast<uint32_t>(spec.added_tokens.size()));
  }
  spec.prefix.push_back(first);
}

void add_qwen_tokens(TokenizerSpec& spec, uint32_t first) {
  for (const char* name : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}) add_special(spec, name, first++);
  for (int i = 0; i < kQwenExtraTokens; ++i) add_special(spec, str_format("<|extra_{}|>", i), first++);
}

}  // namespace

bool looks_like_tiktoken(std::string_view bytes) {
  std::string_view rest = bytes.substr(0, 4096);
  return read_line(take_line(rest)).has_value();
}

Result<TokenizerSpec> read_tiktoken(std::string_view bytes, TiktokenUser user) {
  TokenizerSpec spec;
  std::vector<Line> lines;
  for (size_t number = 1; !bytes.empty(); ++number) {
    const std::string_view line = take_line(bytes);
    if (line.empty()) continue;
    std::optional<Line> read = read_line(line);
    if (!read) return corrupt("line {} of the tiktoken file is not a base64 text and a rank", number);
    if (read->bytes.size() > kMaxAddedTokenBytes) return corrupt("line {} of the tiktoken file is too long", number);
    lines.push_back(*std::move(read));
  }
  if (lines.empty()) return corrupt("the tiktoken file is empty");
  std::vector<PieceRank> pieces;
  uint32_t first_special = 0;
  for (const Line& line : lines) {
    spec.vocabulary.push_back({byte_level_from_bytes(line.bytes), line.rank});
    pieces.push_back({line.bytes, line.rank, line.rank});
    first_special = std::max(first_special, line.rank + 1);
  }
  TANDEM_ASSIGN(spec.merges, merges_of_pieces(pieces));
  spec.ignore_merges = true;
  if (user == TiktokenUser::kLlama3) {
    add_llama3_tokens(spec, first_special);
  } else {
    spec.normalizers.push_back({NormalizerKind::kNfc});
    add_qwen_tokens(spec, first_special);
  }
  spec.pre_tokenizers.push_back({PreTokenizerKind::kSplitRegex, split_options(SplitBehavior::kIsolated),
                                 std::string(user == TiktokenUser::kLlama3 ? kLlama3Pattern : kQwen2Pattern)});
  spec.pre_tokenizers.push_back({PreTokenizerKind::kByteLevel});
  spec.decoders.push_back({DecoderKind::kByteLevel});
  return spec;
}

}  // namespace tandem

#include "tasks/documents.h"

#include "tasks/python_text.h"

namespace tandem {
namespace {

// Takes off the white space inside of each pair, as of re.sub(r"\(\s*([^\)]*?)\s*\)", r"(\1)", text).
std::string tighten_pairs(std::string_view text, char open, char close) {
  std::string out;
  out.reserve(text.size());
  while (true) {
    const size_t begin = text.find(open);
    const size_t end = begin == std::string_view::npos ? begin : text.find(close, begin + 1);
    if (end == std::string_view::npos) break;
    out += text.substr(0, begin + 1);
    out += python_strip(text.substr(begin + 1, end - begin - 1));
    out += close;
    text.remove_prefix(end + 1);
  }
  return out += text;
}

// lm-eval means to close up a quote and a digit here. It writes this instead, and its figures include it.
std::string replace_quoted_digit(std::string_view text) {
  std::string out;
  constexpr std::string_view kBegin = "/' ";
  for (size_t at = text.find(kBegin); at != std::string_view::npos; at = text.find(kBegin)) {
    const size_t digit = at + kBegin.size();
    const bool matches = digit + 1 < text.size() && text[digit] >= '0' && text[digit] <= '9' && text[digit + 1] == '/';
    out += text.substr(0, matches ? at : digit);
    if (matches) out += "/'[0-9]/";
    text.remove_prefix(matches ? digit + 2 : digit);
  }
  return out += text;
}

std::string detokenized(std::string_view page) {
  struct Replacement {
    std::string_view from;
    std::string_view to;
  };
  constexpr Replacement kPunctuation[] = {{" @-@ ", "-"}, {" @,@ ", ","}, {" @.@ ", "."}, {" : ", ": "}, {" ; ", "; "},
                                          {" . ", ". "},  {" ! ", "! "},  {" ? ", "? "},  {" , ", ", "}};
  constexpr Replacement kRest[] = {{"= = = =", "===="}, {"= = =", "==="}, {"= =", "=="},  {" \xc2\xb0 ", "\xc2\xb0"},
                                   {" \n", "\n"},       {"\n ", "\n"},    {" N ", " 1 "}, {" 's", "'s"}};
  std::string text = replace_quoted_digit(replace_all(page, "s '", "s'"));
  for (const auto& [from, to] : kPunctuation) text = replace_all(text, from, to);
  text = tighten_pairs(text, '(', ')');
  text = tighten_pairs(text, '[', ']');
  text = tighten_pairs(text, '{', '}');
  text = tighten_pairs(text, '"', '"');
  text = tighten_pairs(text, '\'', '\'');
  for (const auto& [from, to] : kRest) text = replace_all(text, from, to);
  return text;
}

bool is_title(std::string_view line) {
  const std::string joined = replace_all(replace_all(line, "= = =", "==="), "= =", "==");
  const std::string_view title = python_strip(joined);
  return title.starts_with("= ") && title.ends_with(" =");
}

}  // namespace

TextDocument wikitext_document(std::string_view page) {
  return {detokenized(page), count_words(page), static_cast<int64_t>(page.size())};
}

TextDocument plain_document(std::string_view text) {
  return {std::string(text), count_words(text), static_cast<int64_t>(text.size())};
}

std::vector<std::string_view> wikitext_pages(std::string_view text) {
  std::vector<std::string_view> pages;
  size_t page = 0;
  // Pages are joined lines: the newline between two pages belongs to neither.
  const auto add_page = [&](size_t end) {
    const std::string_view found = text.substr(page, end - page);
    if (!python_strip(found).empty()) pages.push_back(found);
  };
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (at > page && is_title(text.substr(at, end - at))) {
      add_page(at - 1);
      page = at;
    }
    at = end + 1;
  }
  add_page(text.size());
  return pages;
}

}  // namespace tandem

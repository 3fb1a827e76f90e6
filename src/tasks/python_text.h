// What lm-eval's tasks do to texts, as Python's str and re do it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tandem {

// str.isspace(): what strip() takes off and \s matches.
bool is_python_space(char32_t code_point);
// str.strip() and str.rstrip(), of valid UTF-8.
std::string_view python_strip(std::string_view text);
std::string_view python_rstrip(std::string_view text);
// str.capitalize(): the first character in upper case, the others in lower case. Upper case is known of Latin, Greek
// and Cyrillic letters.
std::string python_capitalize(std::string_view text);
// len(str)
int64_t count_characters(std::string_view text);
// len(re.split(r"\s+", text)): one more than there are runs of white space, at the ends too.
int64_t count_words(std::string_view text);
// str.replace()
std::string replace_all(std::string_view text, std::string_view from, std::string_view to);

}  // namespace tandem

// The few Unicode properties and the normal form that tokenizers ask for, on top of utf8proc's tables.
#pragma once

#include <string>
#include <string_view>

namespace tandem {

// White_Space: 25 code points, stable since Unicode 6.3.
bool is_white_space(char32_t code_point);
// General category Nd, Nl or No (Rust's char::is_numeric): digits, and also "½" or "Ⅷ".
bool is_numeric(char32_t code_point);
// \w of the Rust regex crate: Alphabetic, marks, decimal digits, connector punctuation and the two joiners.
bool is_word_character(char32_t code_point);

// True if the text is certainly in NFC already (a quick test: it has nothing above U+02FF).
bool is_trivially_nfc(std::string_view text);
// The NFC form of valid UTF-8. Takes linear time, up to the sorting of a run of combining marks.
std::string nfc(std::string_view text);

}  // namespace tandem

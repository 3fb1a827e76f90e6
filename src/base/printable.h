// Text from outside (a file's names, a path, another program's log) made safe to show on a terminal.
//
// What a terminal obeys or hides is escaped: control characters (\n, \t, \r, \x1b), C1 controls, line and paragraph
// separators and the embeddings, overrides and isolates of bidirectional text (\u{202e}), and invalid UTF-8 (\xff). All
// other characters stay as they are. So does a backslash: this is for reading, not for undoing.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tandem {

// On one line.
std::string printable(std::string_view text);
// The same, but newlines and tabs stay: for multi-line texts.
std::string printable_lines(std::string_view text);
// One line of readable length: a word (a name, a path) of more than 240 bytes, and a text of more than 1000, lose their
// middle. The ends stay, because they tell paths apart and hold a message's advice.
std::string printable_message(std::string_view text);
// At most `limit` bytes, which must be 8 or more, with "…" for the omitted middle.
std::string shortened(std::string_view text, size_t limit);

// Valid JSON that stays valid, with \u escapes for what printable() would escape. Its own newlines stay.
std::string printable_json(std::string_view json);

}  // namespace tandem

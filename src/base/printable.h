// Text from outside (a file's names, a path, another program's log) made safe to show on a terminal.
//
// What a terminal obeys or hides is written as an escape: control characters (\n, \t, \r, \x1b), C1 controls, line and
// paragraph separators and the embeddings, overrides and isolates of bidirectional text (\u{202e}), and bytes that are
// not UTF-8 (\xff). All other characters stay as they are. A backslash stays too: this is for reading, not for undoing.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tandem {

// One line, whatever the text has in it.
std::string printable(std::string_view text);
// The same, but newlines and tabs stay: for texts that have lines of their own.
std::string printable_lines(std::string_view text);
// One line of a length that somebody reads: a word (a name, a path) of more than 240 bytes, and a text of more than
// 1000, lose their middle. The ends stay, because they tell one path from another and hold the advice of a message.
std::string printable_message(std::string_view text);
// A stretch of at most `limit` bytes, which must be 8 at least, with "…" for what was in the middle.
std::string shortened(std::string_view text, size_t limit);

// Text that is valid JSON and stays it, with \u escapes for what printable() would escape. Its own newlines stay.
std::string printable_json(std::string_view json);

}  // namespace tandem

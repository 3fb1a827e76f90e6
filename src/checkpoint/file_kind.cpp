#include "checkpoint/file_kind.h"

#include <algorithm>
#include <array>

#include "archive/zip_reader.h"
#include "base/error.h"

namespace tandem {
namespace {

bool begins_with(std::span<const uint8_t> file, std::string_view text) {
  return file.size() >= text.size() && std::equal(text.begin(), text.end(), file.begin(),
                                                  [](char a, uint8_t b) { return static_cast<uint8_t>(a) == b; });
}

}  // namespace

bool looks_like_gguf(std::span<const uint8_t> file) { return begins_with(file, "GGUF"); }

Error wrong_kind(std::span<const uint8_t> file, std::string_view what, std::string_view wanted) {
  if (file.empty()) return corrupt("{}: the file is empty; download it again", what);
  if (begins_with(file, "version https://git-lfs")) {
    return not_found("{}: this is only a pointer to the file; get the file itself with `git lfs pull`", what);
  }
  for (const std::string_view magic : {"lmgg", "fmgg", "tjgg", "algg"}) {
    if (begins_with(file, magic)) {
      return unsupported("{}: this is a file from before GGUF (GGML or GGJT); convert the original model to GGUF",
                         what);
    }
  }
  // torch.save() before 1.6: a pickled magic number, then other pickles and raw data without a directory.
  constexpr std::string_view kOldTorch("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 14);
  if (begins_with(file, kOldTorch)) {
    return unsupported(
        "{}: torch's old format (not a zip archive) cannot be read; load it with torch 1.6 or later and torch.save() "
        "it "
        "again",
        what);
  }
  if (file[0] == 0x80) {
    return unsupported("{}: this is a bare pickle, not a zip archive as torch.save() writes it; nothing in it was run",
                       what);
  }
  if (looks_like_zip(file)) return unsupported("{}: this is a zip archive, not {}", what, wanted);
  if (looks_like_gguf(file)) return unsupported("{}: this is a GGUF file, not {}", what, wanted);
  return corrupt("{}: this is not {}", what, wanted);
}

}  // namespace tandem

// Zip archives with uncompressed members, as torch.save() writes them: the members' bytes are used in place in the
// mapped file. Compressed or encrypted members are refused.
//
// The list of members comes from the central directory at the end of the file (zip64 too, as files above 4 GB have it);
// each member's own header is read only to find where its data begin. Checksums are not compared: that would read all
// of a file of which only parts are needed, and torch may be told not to write them.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "tandem/status.h"

namespace tandem {

// Names to bytes, which are inside `file`.
using ZipMembers = std::map<std::string, std::span<const uint8_t>, std::less<>>;

// Whether the bytes begin like a zip archive.
bool looks_like_zip(std::span<const uint8_t> file);

// `what` names the file in errors.
Result<ZipMembers> read_zip(std::span<const uint8_t> file, std::string_view what);

}  // namespace tandem

// Zip archives: checkpoints of torch.save(), Python's wheels, Android's AARs.
//
// The list of members comes from the central directory at the end of the file (zip64 too, as files above 4 GB have it);
// each member's own header is read only to find where its data begin. Every member's bytes are inside the file, no two
// have the same name, and encrypted ones are refused. Nothing is ever extracted to a path that an archive names.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/status.h"

namespace tandem {

struct ZipEntry {
  uint16_t method = 0;  // 0: stored, 8: deflated.
  uint32_t crc = 0;
  uint64_t size = 0;                // Unpacked.
  std::span<const uint8_t> stored;  // Inside the file.
};
using ZipEntries = std::map<std::string, ZipEntry, std::less<>>;

// Names to bytes, which are inside the file.
using ZipMembers = std::map<std::string, std::span<const uint8_t>, std::less<>>;

// Whether the bytes begin like a zip archive.
bool looks_like_zip(std::span<const uint8_t> file);

// `what` names the file in errors.
Result<ZipEntries> read_zip_entries(std::span<const uint8_t> file, std::string_view what);

// Archives with uncompressed members, as torch.save() writes them: their bytes are used in place in the mapped file.
// Compressed members are refused. Checksums are not compared: that would read all of a file of which only parts are
// needed, and torch may be told not to write them.
Result<ZipMembers> read_zip(std::span<const uint8_t> file, std::string_view what);

// The content of a member, whose size and checksum must be what the archive says; refuses more than `limit` bytes.
Result<std::vector<uint8_t>> unpack(const ZipEntry& entry, std::string_view name, std::string_view what,
                                    uint64_t limit);

}  // namespace tandem

#include "archive/zip_reader.h"

#include <zlib.h>

#include <algorithm>
#include <optional>

#include "base/byte_reader.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/printable.h"

namespace tandem {
namespace {

constexpr uint32_t kLocalHeader = 0x04034b50;
constexpr uint32_t kCentralHeader = 0x02014b50;
constexpr uint32_t kEnd = 0x06054b50;
constexpr uint32_t kZip64End = 0x06064b50;
constexpr uint32_t kZip64Locator = 0x07064b50;
constexpr uint64_t kEndSize = 22;
constexpr uint64_t kLocatorSize = 20;
constexpr uint64_t kMaxComment = 65535;
constexpr uint64_t kMaxMembers = 1'000'000;  // The largest checkpoints have a few thousand.
constexpr uint16_t kZip64Extra = 1;
constexpr uint16_t kEncrypted = 1;
constexpr uint16_t kStored = 0;
constexpr uint16_t kDeflated = 8;
constexpr uint64_t kMaxDeflateRatio = 1032;  // What the format can reach.
constexpr size_t kLongestName = 200;

std::string readable(std::string_view name) { return shortened(printable(name), kLongestName); }

struct Directory {
  uint64_t members = 0;
  uint64_t size = 0;
  uint64_t offset = 0;
};

// The end record is the last thing in the file except for a comment, whose length it contains.
std::optional<uint64_t> find_end(std::span<const uint8_t> file) {
  if (file.size() < kEndSize) return std::nullopt;
  const uint64_t last = file.size() - kEndSize;
  const uint64_t first = last - std::min(last, kMaxComment);
  for (uint64_t at = last + 1; at-- > first;) {
    ByteReader reader(file, at);
    if (reader.u32() != kEnd) continue;
    reader.skip(16);
    if (reader.u16() == last - at) return at;
  }
  return std::nullopt;
}

Result<Directory> read_end(std::span<const uint8_t> file, std::string_view what) {
  const auto end = find_end(file);
  if (!end) return corrupt("{}: this zip archive has no end; it is cut off, so download it again", what);
  ByteReader reader(file, *end + 4);
  const uint16_t disk = reader.u16(), directory_disk = reader.u16();
  const uint16_t members_here = reader.u16(), members = reader.u16();
  Directory directory{members, reader.u32(), 0};
  directory.offset = reader.u32();
  const bool is_zip64 = members == 0xffff || directory.size == 0xffffffff || directory.offset == 0xffffffff;
  if (*end >= kLocatorSize) {
    ByteReader locator(file, *end - kLocatorSize);
    if (locator.u32() == kZip64Locator) {
      locator.skip(4);
      ByteReader record(file, locator.u64());
      if (record.u32() != kZip64End)
        return corrupt("{}: this zip archive's 64-bit end record is not where it should be", what);
      record.skip(8 + 2 + 2);
      const uint32_t disk64 = record.u32(), directory_disk64 = record.u32();
      const uint64_t here64 = record.u64();
      directory = {record.u64(), record.u64(), 0};
      directory.offset = record.u64();
      if (!record.ok()) return corrupt("{}: this zip archive's 64-bit end record is cut off", what);
      if (disk64 != 0 || directory_disk64 != 0 || here64 != directory.members) {
        return unsupported("{}: zip archives in several volumes cannot be read", what);
      }
      return directory;
    }
  }
  if (is_zip64) return corrupt("{}: this zip archive lacks its 64-bit end record", what);
  if (disk != 0 || directory_disk != 0 || members_here != members) {
    return unsupported("{}: zip archives in several volumes cannot be read", what);
  }
  return directory;
}

struct Member {
  std::string_view name;
  uint16_t flags = 0;
  uint16_t method = 0;
  uint32_t crc = 0;
  uint64_t stored_size = 0;
  uint64_t size = 0;
  uint64_t header = 0;
};

// Fields that do not fit 32 bits are in an extra field, in this order, and only those.
bool read_zip64_extra(std::span<const uint8_t> extra, Member& member) {
  const bool wants = member.size == 0xffffffff || member.stored_size == 0xffffffff || member.header == 0xffffffff;
  if (!wants) return true;
  ByteReader reader(extra);
  while (reader.ok() && reader.left() >= 4) {
    const uint16_t id = reader.u16(), size = reader.u16();
    const auto field = reader.read_bytes(size);
    if (!reader.ok() || id != kZip64Extra) continue;
    ByteReader values(field);
    for (uint64_t* value : {&member.size, &member.stored_size, &member.header}) {
      if (*value == 0xffffffff) *value = values.u64();
    }
    return values.ok();
  }
  return false;
}

Result<Member> read_central_header(ByteReader& reader, std::string_view what) {
  Member member;
  const uint32_t signature = reader.u32();
  reader.skip(2 + 2);
  member.flags = reader.u16();
  member.method = reader.u16();
  reader.skip(2 + 2);
  member.crc = reader.u32();
  member.stored_size = reader.u32();
  member.size = reader.u32();
  const uint16_t name_size = reader.u16(), extra_size = reader.u16(), comment_size = reader.u16();
  reader.skip(2 + 2 + 4);
  member.header = reader.u32();
  member.name = reader.text(name_size);
  const auto extra = reader.read_bytes(extra_size);
  reader.skip(comment_size);
  if (!reader.ok() || signature != kCentralHeader) {
    return corrupt("{}: the directory of this zip archive is damaged; download the file again", what);
  }
  if (!read_zip64_extra(extra, member)) {
    return corrupt("{}: zip member \"{}\" lacks its 64-bit sizes", what, readable(member.name));
  }
  return member;
}

Result<std::span<const uint8_t>> find_data(std::span<const uint8_t> file, const Member& member, uint64_t data_end,
                                           std::string_view what) {
  const auto name = [&] { return readable(member.name); };
  if ((member.flags & kEncrypted) != 0) return unsupported("{}: zip member \"{}\" is encrypted", what, name());
  if (member.method == kStored && member.stored_size != member.size) {
    return corrupt("{}: zip member \"{}\" is not compressed, but has two sizes ({} and {})", what, name(),
                   member.stored_size, member.size);
  }
  ByteReader reader(file, member.header);
  const uint32_t signature = reader.u32();
  reader.skip(22);
  const uint16_t name_size = reader.u16(), extra_size = reader.u16();
  const std::string_view own_name = reader.text(name_size);
  reader.skip(extra_size);
  if (!reader.ok() || signature != kLocalHeader || own_name != member.name) {
    return corrupt("{}: zip member \"{}\" is not where the directory says", what, name());
  }
  if (!range_inside(reader.position(), member.stored_size, data_end)) {
    return corrupt("{}: zip member \"{}\" ({} bytes) extends past the end of the archive", what, name(),
                   member.stored_size);
  }
  return file.subspan(reader.position(), member.stored_size);
}

struct RawInflater {
  z_stream stream{};
  bool ready = false;

  RawInflater() { ready = inflateInit2(&stream, -MAX_WBITS) == Z_OK; }  // Negative: without zlib's header.
  RawInflater(const RawInflater&) = delete;
  RawInflater& operator=(const RawInflater&) = delete;
  ~RawInflater() {
    if (ready) inflateEnd(&stream);
  }
};

// Exactly `size` bytes, or nothing.
std::optional<std::vector<uint8_t>> inflate_exactly(std::span<const uint8_t> packed, uint64_t size) {
  RawInflater inflater;
  if (!inflater.ready || packed.size() > UINT32_MAX || size >= UINT32_MAX) return std::nullopt;
  // One byte more than there should be: a member that goes on is not what it says.
  std::vector<uint8_t> out(size + 1);
  z_stream& stream = inflater.stream;
  stream.next_in = const_cast<Bytef*>(packed.data());  // zlib only reads it.
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  if (inflate(&stream, Z_FINISH) != Z_STREAM_END || stream.total_out != size) return std::nullopt;
  out.resize(size);
  return out;
}

}  // namespace

bool looks_like_zip(std::span<const uint8_t> file) { return ByteReader(file).u32() == kLocalHeader; }

Result<ZipEntries> read_zip_entries(std::span<const uint8_t> file, std::string_view what) {
  TANDEM_ASSIGN(const Directory directory, read_end(file, what));
  if (!range_inside(directory.offset, directory.size, file.size())) {
    return corrupt("{}: the directory of this zip archive extends past the end of the file", what);
  }
  if (directory.members > kMaxMembers) {
    return corrupt("{}: a zip archive of {} members is more than any checkpoint has", what, directory.members);
  }
  ZipEntries entries;
  ByteReader reader(file.subspan(directory.offset, directory.size));
  for (uint64_t i = 0; i < directory.members; ++i) {
    TANDEM_ASSIGN(const Member member, read_central_header(reader, what));
    TANDEM_ASSIGN(const auto data, find_data(file, member, directory.offset, what));
    const ZipEntry entry{.method = member.method, .crc = member.crc, .size = member.size, .stored = data};
    if (!entries.emplace(std::string(member.name), entry).second) {
      return corrupt("{}: zip member \"{}\" is there twice", what, readable(member.name));
    }
  }
  return entries;
}

Result<ZipMembers> read_zip(std::span<const uint8_t> file, std::string_view what) {
  TANDEM_ASSIGN(const ZipEntries entries, read_zip_entries(file, what));
  ZipMembers members;
  for (const auto& [name, entry] : entries) {
    if (entry.method != kStored) {
      return unsupported(
          "{}: zip member \"{}\" is compressed (method {}); torch.save() writes members uncompressed, so "
          "save the file again with it",
          what, readable(name), entry.method);
    }
    members.emplace(name, entry.stored);
  }
  return members;
}

Result<std::vector<uint8_t>> unpack(const ZipEntry& entry, std::string_view name, std::string_view what,
                                    uint64_t limit) {
  if (entry.size > limit) {
    return corrupt("{}: zip member \"{}\" unpacks to {} bytes, and {} are the limit", what, readable(name), entry.size,
                   limit);
  }
  std::optional<std::vector<uint8_t>> bytes;
  if (entry.method == kStored) {
    bytes.emplace(entry.stored.begin(), entry.stored.end());
  } else if (entry.method == kDeflated) {
    // Before memory is taken for what the header promises.
    const bool is_possible = entry.size / kMaxDeflateRatio <= entry.stored.size();
    if (is_possible) bytes = inflate_exactly(entry.stored, entry.size);
  } else {
    return unsupported("{}: zip member \"{}\" is compressed by method {}; only deflate is supported", what,
                       readable(name), entry.method);
  }
  if (!bytes || crc32_z(0, bytes->data(), bytes->size()) != entry.crc) {
    return corrupt("{}: zip member \"{}\" is damaged; download the file again", what, readable(name));
  }
  return *std::move(bytes);
}

}  // namespace tandem

#include "artifact/writer.h"

#include <algorithm>
#include <cstring>

#include "artifact/header_codec.h"
#include "artifact/preamble.h"
#include "artifact/reader.h"
#include "base/atomic_file.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/mapped_file.h"

namespace tandem {
namespace {

constexpr uint64_t kCopyChunk = 8 << 20;

std::span<const uint8_t> bytes_of(const Preamble& preamble) {
  return {reinterpret_cast<const uint8_t*>(&preamble), sizeof(preamble)};
}

Status copy_segment(AtomicFile& out, const SegmentFile& segment, const std::function<bool()>& stop) {
  TANDEM_ASSIGN(const MappedFile file, MappedFile::open(segment.path));
  auto rest = file.bytes();
  while (!rest.empty()) {
    if (stop && stop()) return cancelled("stopped while writing the file");
    const auto chunk = rest.first(std::min<uint64_t>(rest.size(), kCopyChunk));
    const Status written = out.write(chunk);
    TANDEM_TRY(file.check());
    TANDEM_TRY(written);
    file.release(chunk);
    rest = rest.subspan(chunk.size());
  }
  return ok_status();
}

// The header's bytes, which the reader accepts.
Result<std::vector<uint8_t>> encode_checked(const ArtifactHeader& header, uint64_t header_offset) {
  std::vector<uint8_t> bytes = encode_header(header);
  const auto read = decode_header(bytes, header_offset);
  if (!read.ok()) return unsupported("such a file could not be opened again: {}", read.error().message);
  return bytes;
}

}  // namespace

Status check_header(ArtifactHeader header, const std::vector<PlannedSegment>& segments) {
  header.segments.clear();
  uint64_t end = sizeof(Preamble);
  for (const PlannedSegment& segment : segments) {
    const uint64_t offset = round_up(end, kSegmentAlignment);
    header.segments.push_back({segment.name, offset, segment.size, 0});
    end = offset + segment.size;
  }
  return encode_checked(header, round_up(end, kSegmentAlignment)).status();
}

Status write_artifact(const std::filesystem::path& path, ArtifactHeader header,
                      const std::vector<SegmentFile>& segments, const WriteOptions& options) {
  TANDEM_ASSIGN(AtomicFile out, AtomicFile::create(path, {options.temporary_folder, options.replace_link}));
  Preamble preamble;
  TANDEM_TRY(out.write(bytes_of(preamble)));
  header.segments.clear();
  for (const SegmentFile& segment : segments) {
    TANDEM_TRY(out.align(kSegmentAlignment));
    const uint64_t offset = out.size();
    TANDEM_TRY(copy_segment(out, segment, options.stop));
    header.segments.push_back({segment.name, offset, out.size() - offset, segment.hash});
  }
  TANDEM_TRY(out.align(kSegmentAlignment));
  TANDEM_ASSIGN(const std::vector<uint8_t> header_bytes, encode_checked(header, out.size()));
  preamble.version = kArtifactVersion;
  preamble.header_offset = out.size();
  preamble.header_size = header_bytes.size();
  preamble.header_hash = hash_bytes(header_bytes);
  TANDEM_TRY(out.write(header_bytes));
  preamble.file_size = out.size();
  preamble.preamble_hash = hash_bytes(bytes_of(preamble).first(sizeof(Preamble) - sizeof(uint64_t)));
  TANDEM_TRY(out.write_at(0, bytes_of(preamble)));
  return out.commit();
}

}  // namespace tandem

#include "artifact/writer.h"

#include <algorithm>
#include <cstring>

#include "artifact/head_codec.h"
#include "artifact/preamble.h"
#include "artifact/reader.h"
#include "base/atomic_file.h"
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

}  // namespace

Status write_artifact(const std::filesystem::path& path, ArtifactHead head, const std::vector<SegmentFile>& segments,
                      const std::function<bool()>& stop) {
  TANDEM_ASSIGN(AtomicFile out, AtomicFile::create(path));
  Preamble preamble;
  TANDEM_TRY(out.write(bytes_of(preamble)));
  head.segments.clear();
  for (const SegmentFile& segment : segments) {
    TANDEM_TRY(out.align(kSegmentAlignment));
    const uint64_t offset = out.size();
    TANDEM_TRY(copy_segment(out, segment, stop));
    head.segments.push_back({segment.name, offset, out.size() - offset, segment.hash});
  }
  TANDEM_TRY(out.align(kSegmentAlignment));
  const std::vector<uint8_t> head_bytes = encode_head(head);
  preamble.version = kArtifactVersion;
  preamble.head_offset = out.size();
  preamble.head_size = head_bytes.size();
  preamble.head_hash = hash_bytes(head_bytes);
  TANDEM_TRY(out.write(head_bytes));
  preamble.file_size = out.size();
  preamble.preamble_hash = hash_bytes(bytes_of(preamble).first(sizeof(Preamble) - sizeof(uint64_t)));
  TANDEM_TRY(out.write_at(0, bytes_of(preamble)));
  return out.commit();
}

}  // namespace tandem

#include "compiler/combine_programs.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "base/atomic_file.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/mapped_file.h"

namespace tandem {
namespace {

// Smaller parts are not worth writing a segment again for.
constexpr uint64_t kLeastSharedPart = 4096;
constexpr size_t kFirstRewritten = 90000;  // Beyond the numbers of any compile's own segments.

// All byte ranges of a program.
std::vector<Range*> ranges_of(ArtifactHeader& header) {
  std::vector<Range*> ranges;
  for (WeightEntry& weight : header.weights) {
    for (Range* part : {&weight.data, &weight.scales, &weight.multipliers}) ranges.push_back(part);
  }
  for (VectorEntry& vector : header.vectors) ranges.push_back(&vector.data);
  for (Shard& shard : header.shards) ranges.push_back(&shard.binary);
  ranges.push_back(&header.text.tokenizer);
  std::erase_if(ranges, [](const Range* range) { return range->size == 0; });
  return ranges;
}

// Bytes in a file of a segment, and where the combined file has them.
struct StoredPart {
  std::filesystem::path file;
  uint64_t offset = 0;
  Range place;
};

class Combiner {
 public:
  explicit Combiner(const std::function<bool()>& stop) : stop_(stop) {}

  Result<CombinedFile> run(const std::vector<FinishedProgram>& programs) {
    for (const FinishedProgram& program : programs) TANDEM_TRY(add(program));
    return std::move(out_);
  }

 private:
  Status add(const FinishedProgram& program) {
    ArtifactHeader header = program.header;
    const bool is_first = out_.sizes.empty();
    ProgramSize size;
    std::vector<StoredPart> added;
    for (size_t s = 0; s < program.segments.size(); ++s) {
      if (stop_ && stop_()) return cancelled("stopped; the same command goes on where it was");
      std::vector<Range*> parts;
      for (Range* range : ranges_of(header)) {
        if (range->segment == s && !is_moved(*range)) parts.push_back(range);
      }
      TANDEM_TRY(add_segment(program, s, parts, size, added));
    }
    for (Range* range : ranges_of(header)) range->segment -= kMoved;
    for (StoredPart& part : added) known_.emplace(part.place.size, std::move(part));
    out_.sizes.push_back(size);
    if (is_first) {
      out_.header = std::move(header);
    } else {
      out_.header.more_programs.push_back(first_program(std::move(header)));
    }
    return ok_status();
  }

  // Until all segments of a program are done, ranges that have their final place are marked by a number that no segment
  // has.
  static constexpr uint32_t kMoved = 1u << 30;
  static bool is_moved(const Range& range) { return range.segment >= kMoved; }
  static void move_to(Range& range, const Range& place) {
    range = place;
    range.segment += kMoved;
  }

  Status add_segment(const FinishedProgram& program, size_t index, const std::vector<Range*>& parts, ProgramSize& size,
                     std::vector<StoredPart>& added) {
    const SegmentFile& segment = program.segments[index];
    TANDEM_ASSIGN(const MappedFile file, MappedFile::open(segment.path));
    size.bytes += file.bytes().size();
    TANDEM_ASSIGN(const std::optional<uint32_t> same, find_segment(segment.hash, file));
    if (same) {
      size.shared_bytes += file.bytes().size();
      for (Range* part : parts) move_to(*part, {*same, part->offset, part->size});
      return ok_status();
    }
    std::vector<Range*> kept;
    for (Range* part : parts) {
      const auto bytes = file.bytes().subspan(part->offset, part->size);
      TANDEM_ASSIGN(const StoredPart* stored, find(bytes));
      if (stored != nullptr) {
        size.shared_bytes += part->size;
        move_to(*part, stored->place);
      } else {
        kept.push_back(part);
      }
    }
    TANDEM_TRY(file.check());
    if (kept.empty()) return ok_status();
    const auto number = static_cast<uint32_t>(out_.segments.size());
    SegmentFile own = segment;
    std::vector<uint64_t> offsets;
    offsets.reserve(kept.size());
    for (const Range* part : kept) offsets.push_back(part->offset);
    if (kept.size() < parts.size()) TANDEM_TRY(write_again(program.work, index, kept, own, offsets));
    for (size_t i = 0; i < kept.size(); ++i) {
      const Range place{number, offsets[i], kept[i]->size};
      added.push_back({own.path, place.offset, place});
      move_to(*kept[i], place);
    }
    if (!out_.sizes.empty()) own.name = str_format("{}/{}", program.header.target, own.name);
    out_.segments.push_back(std::move(own));
    return ok_status();
  }

  // An equal segment of an earlier program.
  Result<std::optional<uint32_t>> find_segment(uint64_t hash, const MappedFile& wanted) const {
    if (out_.sizes.empty()) return std::optional<uint32_t>();
    for (uint32_t number = 0; number < out_.segments.size(); ++number) {
      if (out_.segments[number].hash != hash) continue;
      TANDEM_ASSIGN(const MappedFile file, MappedFile::open(out_.segments[number].path));
      const bool is_equal = std::ranges::equal(file.bytes(), wanted.bytes());
      TANDEM_TRY(file.check());
      TANDEM_TRY(wanted.check());
      if (is_equal) return std::optional<uint32_t>(number);
    }
    return std::optional<uint32_t>();
  }

  // An equal part of an earlier program; null if there is none.
  Result<const StoredPart*> find(std::span<const uint8_t> bytes) const {
    if (bytes.size() < kLeastSharedPart) return nullptr;
    const auto [begin, end] = known_.equal_range(bytes.size());
    for (auto it = begin; it != end; ++it) {
      const StoredPart& stored = it->second;
      TANDEM_ASSIGN(const MappedFile file, MappedFile::open(stored.file));
      const bool is_equal = std::ranges::equal(file.bytes().subspan(stored.offset, bytes.size()), bytes);
      TANDEM_TRY(file.check());
      if (is_equal) return &stored;
    }
    return nullptr;
  }

  // The segment with nothing but these parts, in their order.
  static Status write_again(const WorkFolder& work, size_t index, const std::vector<Range*>& parts,
                            SegmentFile& segment, std::vector<uint64_t>& offsets) {
    TANDEM_ASSIGN(const MappedFile from, MappedFile::open(segment.path));
    const std::filesystem::path path = work.segment_path(kFirstRewritten + index);
    TANDEM_ASSIGN(AtomicFile out, AtomicFile::create(path));
    for (size_t i = 0; i < parts.size(); ++i) {
      TANDEM_TRY(out.align(kPartAlignment));
      offsets[i] = out.size();
      const Status written = out.write(from.bytes().subspan(parts[i]->offset, parts[i]->size));
      TANDEM_TRY(from.check());
      TANDEM_TRY(written);
    }
    TANDEM_TRY(out.commit());
    TANDEM_ASSIGN(const MappedFile written, MappedFile::open(path));
    segment.path = path;
    segment.hash = hash_bytes(written.bytes());
    return written.check();
  }

  const std::function<bool()>& stop_;
  CombinedFile out_;
  std::multimap<uint64_t, StoredPart> known_;  // Of earlier programs, by size.
};

}  // namespace

Result<CombinedFile> combine_programs(const std::vector<FinishedProgram>& programs, const std::function<bool()>& stop) {
  return Combiner(stop).run(programs);
}

}  // namespace tandem

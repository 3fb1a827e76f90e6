// Writes an artifact from finished segment files.
#pragma once

#include <filesystem>
#include <functional>
#include <vector>

#include "artifact/header.h"
#include "tandem/status.h"

namespace tandem {

// Bytes of a segment, ready on disk.
struct SegmentFile {
  std::string name;
  std::filesystem::path path;
  uint64_t hash = 0;
};

// A segment that is yet to be written.
struct PlannedSegment {
  std::string name;
  uint64_t size = 0;
};

// Whether the reader would open a file with this header: whatever it refuses is refused here. Call it before the work;
// write_artifact() checks again. `header.segments` is filled in here.
Status check_header(ArtifactHeader header, const std::vector<PlannedSegment>& segments);

struct WriteOptions {
  std::filesystem::path temporary_folder = {};  // See AtomicFileOptions.
  bool replace_link = false;
  std::function<bool()> stop = {};  // Polled; true stops and leaves nothing behind.
};

// Writes `path`: the segments in order, then the header. `header.segments` is filled in here from `segments`.
// The file appears whole or not at all.
Status write_artifact(const std::filesystem::path& path, ArtifactHeader header,
                      const std::vector<SegmentFile>& segments, const WriteOptions& options = {});

}  // namespace tandem

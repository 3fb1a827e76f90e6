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

// A segment that is still to be made.
struct PlannedSegment {
  std::string name;
  uint64_t size = 0;
};

// Whether a file with this header would be opened: all that the reader refuses is refused here. To be asked before the
// work; write_artifact() asks again. `header.segments` is filled in here.
Status check_header(ArtifactHeader header, const std::vector<PlannedSegment>& segments);

struct WriteOptions {
  std::filesystem::path temporary_folder = {};  // See AtomicFileOptions.
  bool replace_link = false;
  std::function<bool()> stop = {};  // Asked now and then; true leaves nothing behind.
};

// Puts `path` together: the segments in order, then the header. `header.segments` is filled in here from `segments`.
// The file appears whole or not at all.
Status write_artifact(const std::filesystem::path& path, ArtifactHeader header,
                      const std::vector<SegmentFile>& segments, const WriteOptions& options = {});

}  // namespace tandem

// Writes an artifact from finished segment files.
#pragma once

#include <filesystem>
#include <functional>
#include <vector>

#include "artifact/head.h"
#include "tandem/status.h"

namespace tandem {

// Bytes of a segment, ready on disk.
struct SegmentFile {
  std::string name;
  std::filesystem::path path;
  uint64_t hash = 0;
};

// Puts `path` together: the segments in order, then the head. `head.segments` is filled in here from `segments`.
// The file appears whole or not at all. `stop` is asked now and then; true leaves nothing behind.
// It may be empty.
Status write_artifact(const std::filesystem::path& path, ArtifactHead head, const std::vector<SegmentFile>& segments,
                      const std::function<bool()>& stop);

}  // namespace tandem

// Whether two files have the same programs.
#pragma once

#include <gtest/gtest.h>

#include "artifact/reader.h"

namespace tandem::test {

// All but the record of the data that they were calibrated with, which one of them may not have needed. Segments are
// compared by their checksums: the record's length moves them.
inline bool same_but_for_calibration(const std::filesystem::path& a, const std::filesystem::path& b) {
  const auto header = [](const std::filesystem::path& path) {
    const auto artifact = Artifact::open(path);
    EXPECT_TRUE(artifact.ok()) << artifact.error().message;
    ArtifactHeader copy = artifact.ok() ? artifact->header() : ArtifactHeader();
    copy.calibration.clear();
    for (Segment& segment : copy.segments) segment.offset = 0;
    return copy;
  };
  return header(a) == header(b);
}

}  // namespace tandem::test

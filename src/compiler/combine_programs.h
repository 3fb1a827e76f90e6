// The programs of several targets as one file. What is equal to the byte is stored once: whole segments (the tokenizer,
// all weights of two back ends that read the same layout), and parts of segments (an embedding that an NPU's program
// looks up and a CPU's too). Programs keep their own graphs, recipes and metrics.
#pragma once

#include <functional>
#include <vector>

#include "artifact/header.h"
#include "artifact/writer.h"
#include "compiler/compile_job.h"
#include "tandem/status.h"

namespace tandem {

struct ProgramSize {
  uint64_t bytes = 0;         // What the program uses.
  uint64_t shared_bytes = 0;  // Of those, what is stored for an earlier one.
};

struct CombinedFile {
  ArtifactHeader header;              // Of the first program; the others are in more_programs.
  std::vector<SegmentFile> segments;  // The first program's, unchanged, and what the others have besides.
  std::vector<ProgramSize> sizes;
};

// A segment of which a part is stored already is written again without it, into its program's work folder.
Result<CombinedFile> combine_programs(const std::vector<FinishedProgram>& programs, const std::function<bool()>& stop);

}  // namespace tandem

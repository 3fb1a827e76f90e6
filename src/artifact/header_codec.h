// The header between its FlatBuffer form (artifact.fbs) and plain data.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "artifact/header.h"
#include "tandem/status.h"

namespace tandem {

// An older revision is for tests: readers get what such a file does not have from what it has.
std::vector<uint8_t> encode_header(const ArtifactHeader& header, uint32_t revision = kHeaderRevision);

// Decodes and checks everything that can be checked without the weights: a header that comes out of here is safe to use
// for look-ups, whatever the bytes were. They must be 8-byte aligned. `data_end` is where segments must end (the
// header's own offset in the file).
Result<ArtifactHeader> decode_header(std::span<const uint8_t> bytes, uint64_t data_end);

}  // namespace tandem

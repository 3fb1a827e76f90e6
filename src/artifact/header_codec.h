// Converts the header between its FlatBuffer form (artifact.fbs) and plain data.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "artifact/header.h"
#include "tandem/status.h"

namespace tandem {

// An older revision is for tests of how readers derive what such a file does not store.
std::vector<uint8_t> encode_header(const ArtifactHeader& header, uint32_t revision = kHeaderRevision);

// Decodes the header and checks everything that can be checked without the weights: the result is safe to use for
// lookups, whatever the bytes were. They must be 8-byte aligned. `data_end` is where segments must end (the header's
// own offset in the file).
Result<ArtifactHeader> decode_header(std::span<const uint8_t> bytes, uint64_t data_end);

}  // namespace tandem

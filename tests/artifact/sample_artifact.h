// A small artifact with everything in it, and ways to make broken ones.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <numeric>

#include "artifact/header.h"
#include "artifact/header_codec.h"
#include "artifact/preamble.h"
#include "artifact/reader.h"
#include "artifact/writer.h"
#include "support/small_graph.h"
#include "support/temp_folder.h"

namespace tandem::test {

inline constexpr uint64_t kPart = 1024;  // Bytes that each part of a weight gets here.

inline std::vector<uint8_t> pattern(size_t size, int seed) {
  std::vector<uint8_t> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>(i * 7 + i / 251 + static_cast<size_t>(seed) * 31);
  return bytes;
}

// Weights in segment 0, vectors in segment 1, a tokenizer in segment 2. header.segments is left empty.
inline ArtifactHeader sample_header() {
  ArtifactHeader header;
  header.producer = "tandem test";
  header.target = "cpu";
  header.backend = "cpu";
  header.model = {"sample", "llama", "LlamaForCausalLM", kSmallVocab, kSmallWidth, 1, 4, 2, kSmallHeadDim, 64, 1234};
  SmallGraphOptions prefill;
  prefill.name = "prefill_4";
  prefill.tokens = 4;
  SmallGraphOptions decode;
  decode.tokens = 1;
  header.methods = {small_graph(decode), small_graph(prefill)};
  uint64_t weight_cursor = 0, vector_cursor = 0;
  for (const ir::Tensor& t : header.methods[0].tensors) {
    if (t.role == ir::TensorRole::kWeight) {
      WeightEntry entry;
      entry.name = t.name;
      entry.format = t.format;
      entry.block = t.block;
      entry.rows = t.shape[0];
      entry.cols = t.shape[1];
      for (Range* part : {&entry.data, &entry.scales, &entry.multipliers}) {
        if (part == &entry.multipliers && t.format != WeightFormat::kLpbq4) continue;
        *part = {0, weight_cursor, kPart};
        weight_cursor += kPart;
      }
      header.weights.push_back(entry);
    } else if (t.role == ir::TensorRole::kVector) {
      const auto bytes = static_cast<uint64_t>(t.shape[0]) * sizeof(float);
      header.vectors.push_back({t.name, t.shape[0], {1, vector_cursor, bytes}});
      vector_cursor += 64;
    }
  }
  header.text.has_tokenizer = true;
  header.text.tokenizer = {2, 0, 100};
  header.text.chat_template = "{{ messages }}";
  header.text.bos_token = "<s>";
  header.text.eos_token = "</s>";
  header.text.special_tokens = R"({"pad_token": "<pad>"})";
  header.text.tool_template = "{{ tools }}";
  header.text.bos_id = 1;
  header.text.eos_ids = {2, 3};
  header.generation = {true, 0.7f, 40, 0.9f, 0.05f, 1.1f, 256};
  header.recipe = R"({"name": "w4"})";
  header.metrics = {{"weight_sqnr_db", 21.5}, {"perplexity", 1.28}};
  return header;
}

// Their contents: more than a page, less than a page, odd.
inline std::vector<std::vector<uint8_t>> sample_segments() {
  return {pattern(20 * kPart, 1), pattern(4096, 2), pattern(100, 3)};
}
inline const char* const kSegmentNames[] = {"layers.0", "vectors", "tokenizer"};

inline std::vector<SegmentFile> write_segments(const TempFolder& folder) {
  std::vector<SegmentFile> files;
  for (size_t i = 0; i < 3; ++i) {
    const auto bytes = sample_segments()[i];
    write_file(folder / kSegmentNames[i], bytes);
    files.push_back({kSegmentNames[i], folder / kSegmentNames[i], hash_bytes(bytes)});
  }
  return files;
}

inline std::filesystem::path write_sample(const TempFolder& folder) {
  const std::filesystem::path path = folder / "sample.tdm";
  const Status status = write_artifact(path, sample_header(), write_segments(folder), {});
  EXPECT_TRUE(status.ok()) << status.error().message;
  return path;
}

// sample_header() as it is in a file: with its segments.
inline ArtifactHeader placed_header() {
  ArtifactHeader header = sample_header();
  uint64_t offset = kSegmentAlignment;
  for (size_t i = 0; i < 3; ++i) {
    const auto bytes = sample_segments()[i];
    header.segments.push_back({kSegmentNames[i], offset, bytes.size(), hash_bytes(bytes)});
    offset = (offset + bytes.size() + kSegmentAlignment - 1) / kSegmentAlignment * kSegmentAlignment;
  }
  return header;
}
inline constexpr uint64_t kPlacedEnd = 5 * kSegmentAlignment;  // Where the header of placed_header() lies.

// A file around any header bytes, with checksums that match; `tweak` may then change the preamble (its own checksum is
// made after that).
inline void write_around(const std::filesystem::path& path, const std::vector<uint8_t>& header,
                         const std::function<void(Preamble&)>& tweak = {}) {
  Preamble preamble;
  preamble.version = kArtifactVersion;
  preamble.header_offset = kPlacedEnd;
  preamble.header_size = header.size();
  preamble.header_hash = hash_bytes(header);
  preamble.file_size = kPlacedEnd + header.size();
  if (tweak) tweak(preamble);
  const std::span bytes(reinterpret_cast<const uint8_t*>(&preamble), sizeof(preamble));
  preamble.preamble_hash = hash_bytes(bytes.first(sizeof(preamble) - sizeof(uint64_t)));
  std::vector<uint8_t> file(kPlacedEnd + header.size());
  std::memcpy(file.data(), &preamble, sizeof(preamble));
  std::copy(header.begin(), header.end(), file.begin() + kPlacedEnd);
  write_file(path, file);
}

}  // namespace tandem::test

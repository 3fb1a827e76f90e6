// Byte-pair encoding of one word: merges the lowest-ranked pair of neighbours, the leftmost first, until none is left.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tandem/status.h"
#include "tokenizer/token_rules.h"
#include "tokenizer/tokenizer_blob.h"

namespace tandem {

// Holds the buffers of one caller; once they have grown, encoding a word allocates nothing.
class BpeEncoder {
 public:
  explicit BpeEncoder(const TokenizerBlob& blob) : blob_(blob) {}

  // Appends the ids of a word: bytes if the tokenizer is byte-level, else UTF-8. Takes O(n log n) time at worst.
  // Refused tokens are treated as if they were not in the vocabulary; text that is then unknown still becomes the
  // unknown token, or bytes.
  Status encode(std::string_view word, std::vector<int32_t>& ids, const Refusal& refused = {});

 private:
  Status start_bytes(std::string_view word);
  Status start_characters(std::string_view word);
  MergeHit merge(uint32_t left, uint32_t right) const;
  void merge_short();
  void merge_long();

  struct Link {
    uint32_t previous;
    uint32_t next;
  };
  struct Candidate {
    uint32_t rank;
    uint32_t at;
    uint32_t merged;
  };

  const TokenizerBlob& blob_;
  Refusal refused_;  // For the word being encoded.
  std::vector<uint32_t> symbols_;
  std::vector<MergeHit> hits_;  // Of symbol i with its right neighbour; merge_short only.
  std::vector<Link> links_;     // merge_long only, like the heap.
  std::vector<Candidate> heap_;
};

}  // namespace tandem

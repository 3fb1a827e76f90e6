// Byte-pair encoding of one word: the lowest-ranked pair of neighbours is merged, the leftmost first, until none is
// left.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tandem/status.h"
#include "tokenizer/token_rules.h"
#include "tokenizer/tokenizer_blob.h"

namespace tandem {

// Has the buffers of one caller; a word costs no allocation once they have grown.
class BpeEncoder {
 public:
  explicit BpeEncoder(const TokenizerBlob& blob) : blob_(blob) {}

  // Appends the ids of a word: bytes if the tokenizer is byte-level, else UTF-8. Takes time n log n at worst. What is
  // refused is encoded as if it were not in the vocabulary, but what is unknown then still becomes the unknown token,
  // or bytes.
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
  Refusal refused_;  // Of the word that is being encoded.
  std::vector<uint32_t> symbols_;
  std::vector<MergeHit> hits_;  // Of symbol i with its right neighbour; merge_short only.
  std::vector<Link> links_;     // merge_long only, as the heap.
  std::vector<Candidate> heap_;
};

}  // namespace tandem

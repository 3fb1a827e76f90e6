// Unigram language model encoding of one word: of all ways to cut it into tokens, the one with the highest sum of
// scores (Viterbi's algorithm).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tandem/status.h"
#include "tokenizer/token_rules.h"
#include "tokenizer/tokenizer_blob.h"
#include "tokenizer/work_budget.h"

namespace tandem {

// The lowest score of the vocabulary, which the score of unknown characters depends on.
double lowest_score(const TokenizerBlob& blob);

// Holds the buffers of one caller.
class UnigramEncoder {
 public:
  // `lowest` is lowest_score(blob), which reads all tokens.
  UnigramEncoder(const TokenizerBlob& blob, double lowest, WorkBudget& budget)
      : blob_(blob), budget_(budget), unknown_score_(lowest - 10.0) {}

  // Appends the ids of a word (valid UTF-8). Takes n times the length of the longest token that begins at each
  // position, which is charged to the budget. Refused tokens are treated as if they were not in the vocabulary; text
  // that is then unknown still becomes the unknown token, or bytes.
  Status encode(std::string_view word, std::vector<int32_t>& ids, const Refusal& refused = {});

 private:
  struct Node {
    double score;
    uint32_t id;
    uint32_t length;  // Of the best token that ends here; 0 if none does.
  };

  Status append(std::string_view piece, uint32_t id, std::vector<int32_t>& ids, const Refusal& refused) const;
  uint32_t find(std::string_view piece) const;

  const TokenizerBlob& blob_;
  WorkBudget& budget_;
  double unknown_score_;
  std::vector<Node> nodes_;  // By the position where a token ends.
  std::vector<uint32_t> path_;
};

}  // namespace tandem

// What models are measured on: conversations, a text or token ids, as sequences of tokens.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "chat/conversations.h"
#include "eval/tested_model.h"

namespace tandem {

struct DatasetOptions {
  // One of the three.
  std::filesystem::path conversations = {};
  std::filesystem::path text = {};
  std::filesystem::path ids = {};
  int64_t window = 0;  // Tokens of a window of a text or of ids; 0: the context.
  int64_t limit = -1;  // So many sequences; 0: all; -1: all windows, or 200 conversations.

  // Whether one of the three is given; nothing is read.
  Status check() const;
};

struct Dataset {
  std::vector<std::vector<int32_t>> sequences;
  std::vector<Conversation> conversations;  // All of them, if that is what was given.

  // Of what is scored: all tokens but the last of each sequence.
  int64_t scored_tokens() const;
};

// The model's tokenizer and chat template make tokens of texts; `context` is the smallest of all models that will see
// them, and what does not fit it is refused.
Result<Dataset> read_dataset(const DatasetOptions& options, const TestedModel& model, int64_t context);

// What to answer when greedy tokens are compared: `prompt` as a user's message (or as plain text where the model has no
// chat template), the first user's message of the first conversation, or else the beginning of the first sequence.
Result<std::vector<int32_t>> prompt_of(const Dataset& material, const std::string& prompt, const TestedModel& model);

// A JSON list of token ids, or an object with the key "valid_ids" or "ids".
Result<std::vector<int32_t>> read_ids(const std::filesystem::path& path);

}  // namespace tandem

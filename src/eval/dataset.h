// Evaluation datasets: conversations, a text or token ids, as sequences of tokens.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "chat/conversations.h"
#include "eval/evaluation_data.h"
#include "eval/tested_model.h"
#include "eval/text_size.h"

namespace tandem {

struct DatasetOptions {
  // Exactly one of the three.
  std::filesystem::path conversations = {};
  std::filesystem::path text = {};
  std::filesystem::path ids = {};
  int64_t window = 0;  // Tokens per window of a text or of ids; 0: the context.
  int64_t limit = -1;  // Number of sequences; 0: all; -1: all windows, or 200 conversations.

  // Whether exactly one of the three is given; nothing is read.
  Status check() const;
};

struct Dataset {
  std::vector<std::vector<int32_t>> sequences;
  std::vector<Conversation> conversations;  // All of them, if conversations were given.
  std::optional<TextSize> text;             // What the scored tokens stand for, if a text was given.
  EvaluationData data = {};

  // Scored tokens: all but the last of each sequence.
  int64_t scored_tokens() const;
};

// Texts are tokenized with the model's tokenizer and chat template; `context` is the smallest of all models that will
// see them, and longer sequences are refused.
Result<Dataset> read_dataset(const DatasetOptions& options, const TestedModel& model, int64_t context);

// The prompt for comparing greedy tokens: `prompt` as a user's message (or as plain text if the model has no chat
// template), otherwise the first user message of the first conversation, or the beginning of the first sequence.
Result<std::vector<int32_t>> prompt_of(const Dataset& dataset, const std::string& prompt, const TestedModel& model);

// A JSON list of token ids, or an object with the key "valid_ids" or "ids".
Result<std::vector<int32_t>> read_ids(const std::filesystem::path& path);

}  // namespace tandem

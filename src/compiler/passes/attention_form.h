// How a fixed graph computes attention.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/status.h"

namespace tandem {

// All forms compute the same values; which one is fast depends on the chip and on the tokens of a call
// (docs/performance.md). Methods that share a cache all have it whole, or all by KV head.
struct AttentionForm {
  enum class Heads : uint8_t {
    kTogether,      // MHA: one product for all heads.
    kPerKvHead,     // GQA: one for each KV head; its query heads are rows.
    kPerQueryHead,  // SHA: one for each query head.
  };
  Heads heads = Heads::kTogether;
  // The cache and the call's own rows are multiplied separately, and the results joined. Otherwise the rows are first
  // appended to the cache.
  bool keys_apart = false;
  bool values_apart = false;

  bool splits_cache() const { return heads != Heads::kTogether; }
  bool operator==(const AttentionForm&) const = default;
};

// The form of each method, by the tokens of its calls. All heads together where none is given.
struct AttentionForms {
  std::map<int64_t, AttentionForm> by_tokens = {};

  AttentionForm of(int64_t tokens) const {
    const auto it = by_tokens.find(tokens);
    return it == by_tokens.end() ? AttentionForm() : it->second;
  }
  bool operator==(const AttentionForms&) const = default;
};

// "mha", "gqa" or "sha", followed by "+k" or "+v" where keys or values are multiplied separately: "gqa+kv".
std::string attention_form_name(const AttentionForm& form);
Result<AttentionForm> parse_attention_form(std::string_view name);
std::vector<AttentionForm> all_attention_forms();

}  // namespace tandem

// How the next token is picked from the model's logits.
#pragma once

#include <cstdint>

namespace tandem {

struct SamplerOptions {
  float temperature = 0;         // 0: always the most likely token. The other filters then have no effect.
  int top_k = 0;                 // Keep the k most likely (and what ties with the last of them). 0: off.
  float top_p = 1;               // Keep the most likely that together have this probability. 1: off.
  float min_p = 0;               // Keep what has at least this share of the most likely one's probability. 0: off.
  float repetition_penalty = 1;  // Above 1: tokens of the history get less likely. 1: off.
  int repetition_window = 0;     // How many of the last tokens of the history count; 0: all of them.
  uint64_t seed = 0;
};

}  // namespace tandem

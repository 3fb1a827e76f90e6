// The golden checkpoints: tiny ones of every family, with the results of Hugging Face's code.
#pragma once

namespace tandem::test {

inline constexpr const char* kGoldenFamilies[] = {"llama2",    "llama3_2",   "qwen2_5", "qwen3",     "smollm2",
                                                  "gemma",     "gemma2",     "gemma3",  "phi4_mini", "glm_edge",
                                                  "glm4_0414", "granite3_3", "smollm3", "codegen",   "codegen2"};

}  // namespace tandem::test

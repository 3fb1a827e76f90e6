// Any bytes as a GGUF file: an error, or a configuration, a tokenizer and tensors that can all be read.
#include <cstdlib>

#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/container.h"
#include "tokenizer/import/tokenizer_files.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto container = tandem::parse_gguf({data, size}, "fuzz");
  if (!container.ok()) {
    if (container.error().message.empty()) std::abort();
    return 0;
  }
  for (const auto& [name, tensor] : container->tensors) {
    for (const auto& part : tensor.parts) {
      if (part.data() < data || part.data() + part.size() > data + size) std::abort();
    }
    std::vector<float> rows(tensor.row_size());
    if (!tandem::read_stored_rows(tensor, tensor.rows() - 1, 1, rows).ok()) std::abort();
  }
  (void)tandem::ModelConfig::from_json(container->config, "fuzz");
  if (container->tokenizer) {
    const auto spec = container->tokenizer();
    // What is read must compile, or be refused.
    if (spec.ok()) (void)tandem::tokenizer_from_spec(*spec);
  }
  return 0;
}

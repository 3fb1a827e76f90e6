// Any bytes as a safetensors file: an error, or a header whose every entry lies inside the file.
#include <cstdlib>
#include <string>

#include "checkpoint/convert.h"
#include "checkpoint/hub/safetensors.h"

namespace {

void check(const std::span<const uint8_t> file) {
  const auto header = tandem::parse_safetensors(file, "fuzz");
  if (!header.ok()) {
    if (header.error().message.empty()) std::abort();
    return;
  }
  for (const tandem::SafetensorsEntry& entry : header->entries) {
    const auto bytes = file.subspan(header->data_begin).subspan(entry.begin, entry.end - entry.begin);
    if (!entry.dtype || !tandem::dtype_is_float(*entry.dtype)) continue;
    const auto values = tandem::read_tensor_f32({*entry.dtype, entry.shape, bytes});
    if (!values.ok()) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  check({data, size});
  // The same bytes as a header with the right length, and some data: a mutation seldom keeps the length right.
  if (size > 1 && size < 65536) {
    const size_t payload = data[0];
    std::string file;
    for (size_t i = 0; i < 8; ++i) file += static_cast<char>((size - 1) >> (8 * i));
    file.append(reinterpret_cast<const char*>(data) + 1, size - 1);
    file.append(payload, 'x');
    check({reinterpret_cast<const uint8_t*>(file.data()), file.size()});
  }
  return 0;
}

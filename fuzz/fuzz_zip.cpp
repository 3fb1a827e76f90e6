// Any bytes as a zip archive: an error, or members inside the file that unpack to what they say, or are refused.
#include <cstdlib>

#include "archive/zip_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto entries = tandem::read_zip_entries({data, size}, "fuzz");
  if (!entries.ok()) {
    if (entries.error().message.empty()) std::abort();
    return 0;
  }
  constexpr uint64_t kLimit = 1 << 20;
  for (const auto& [name, entry] : *entries) {
    if (!entry.stored.empty() &&
        (entry.stored.data() < data || entry.stored.data() + entry.stored.size() > data + size)) {
      std::abort();
    }
    const auto bytes = tandem::unpack(entry, name, "fuzz", kLimit);
    if (bytes.ok() ? bytes->size() != entry.size : bytes.error().message.empty()) std::abort();
  }
  return 0;
}

// Any bytes as a library or program for a device: an error, or names that end.
#include <cstdlib>

#include "deploy/elf_info.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto elf = tandem::read_elf({data, size}, "fuzz");
  if (!elf.ok()) {
    if (elf.error().message.empty()) std::abort();
    return 0;
  }
  for (const std::string& name : elf->needed) {
    if (name.size() >= size) std::abort();
  }
  (void)tandem::system_of(*elf);
  return 0;
}

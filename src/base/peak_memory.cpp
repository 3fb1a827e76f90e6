#include "base/peak_memory.h"

#include <sys/resource.h>

namespace tandem {

uint64_t peak_memory() {
  struct rusage usage {};
  if (::getrusage(RUSAGE_SELF, &usage) != 0) return 0;
#ifdef __APPLE__
  return static_cast<uint64_t>(usage.ru_maxrss);
#else
  return static_cast<uint64_t>(usage.ru_maxrss) << 10;
#endif
}

}  // namespace tandem

// The address ranges of our mapped files, for the signal handler behind include/tandem/mapping_guard.h.
#pragma once

#include <cstddef>

namespace tandem {

// Registers a mapping with the handler, and knows whether the handler had to put zeros into it.
class MappingRecord {
 public:
  MappingRecord() = default;
  // If the table is full, the mapping is not guarded.
  MappingRecord(const void* begin, size_t size) noexcept;
  MappingRecord(MappingRecord&& other) noexcept;
  MappingRecord& operator=(MappingRecord&& other) noexcept;
  MappingRecord(const MappingRecord&) = delete;
  MappingRecord& operator=(const MappingRecord&) = delete;
  // Must run before the memory is unmapped: afterwards it may belong to somebody else.
  ~MappingRecord();

  bool has_faulted() const noexcept;

 private:
  int slot_ = -1;
};

}  // namespace tandem

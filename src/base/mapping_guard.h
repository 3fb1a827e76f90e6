// Which parts of memory are files that we mapped, for the signal handler behind include/tandem/mapping_guard.h.
#pragma once

#include <cstddef>

namespace tandem {

// Where a mapping is known to the handler. Tells whether the handler had to put zeros into it.
class MappingRecord {
 public:
  MappingRecord() = default;
  // Where the table is full, the mapping is not guarded.
  MappingRecord(const void* begin, size_t size) noexcept;
  MappingRecord(MappingRecord&& other) noexcept;
  MappingRecord& operator=(MappingRecord&& other) noexcept;
  MappingRecord(const MappingRecord&) = delete;
  MappingRecord& operator=(const MappingRecord&) = delete;
  // Must come before the memory is unmapped: afterwards it may belong to somebody else.
  ~MappingRecord();

  bool has_faulted() const noexcept;

 private:
  int slot_ = -1;
};

}  // namespace tandem

// A model that is a part of a file: inside an app's package, say, which gives a descriptor, an offset and a length.
#pragma once

#include <cstdint>

namespace tandem {

struct FileRegion {
  // Open for reading, of a regular file. It is duplicated: the caller may close its own once the call has returned.
  int descriptor = -1;
  // The model is used where it is mapped if its first byte is at a multiple of 64 in the file, as in a file of its own.
  // Elsewhere it is copied into memory, which takes as much of it as the file is large. For an APK: store the model
  // uncompressed and at a multiple of 64 bytes.
  int64_t offset = 0;
  int64_t length = -1;  // -1: up to the file's end.
};

}  // namespace tandem

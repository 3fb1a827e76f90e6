#include "text/gzip.h"

#include <zlib.h>

#include <algorithm>

#include "base/error.h"

namespace tandem {
namespace {

struct Inflater {
  z_stream stream{};
  bool ready = false;

  Inflater() { ready = inflateInit2(&stream, 16 + MAX_WBITS) == Z_OK; }  // 16: gzip, not zlib.
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() {
    if (ready) inflateEnd(&stream);
  }
};

}  // namespace

bool is_gzip(std::string_view bytes) { return bytes.size() >= 2 && bytes[0] == '\x1f' && bytes[1] == '\x8b'; }

Result<std::string> gunzip(std::string_view bytes, uint64_t limit) {
  Inflater inflater;
  if (!inflater.ready) return resource_exhausted("no memory to unpack a gzip file");
  z_stream& stream = inflater.stream;
  std::string out;
  size_t taken = 0;
  while (true) {
    constexpr size_t kChunk = 1 << 20;
    const size_t before = out.size();
    const auto room = static_cast<size_t>(std::min<uint64_t>(kChunk, limit - before + 1));
    out.resize(before + room);
    const size_t offered = std::min<size_t>(bytes.size() - taken, 1u << 30);
    // zlib only reads what next_in points to.
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data() + taken));
    stream.avail_in = static_cast<uInt>(offered);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + before);
    stream.avail_out = static_cast<uInt>(room);
    const int status = inflate(&stream, Z_NO_FLUSH);
    taken += offered - stream.avail_in;
    out.resize(before + room - stream.avail_out);
    if (out.size() > limit) return corrupt("the gzip file unpacks to more than {} bytes", limit);
    if (status == Z_STREAM_END) {
      if (!is_gzip(bytes.substr(taken))) return out;
      if (inflateReset(&stream) != Z_OK) return corrupt("the gzip file is damaged");
      continue;
    }
    if (status == Z_BUF_ERROR || (status == Z_OK && stream.avail_out != 0 && taken == bytes.size())) {
      return corrupt("the gzip file is cut off");
    }
    if (status != Z_OK) return corrupt("the gzip file is damaged");
  }
}

}  // namespace tandem

#include "tokenizer/import/gzip.h"

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

// A tokenizer.json compresses to a tenth, one with few words to a thirtieth. The format can reach a thousandth, but
// only files made to exhaust memory do.
constexpr uint64_t kMaxRatio = 100;
constexpr uint64_t kAlwaysAllowed = 1 << 20;
constexpr size_t kChunk = 1 << 16;

// Passes the content to take() in chunks, until it fails.
template <typename Take>
Status inflate_chunks(std::string_view bytes, Take&& take) {
  Inflater inflater;
  if (!inflater.ready) return resource_exhausted("no memory to unpack a gzip file");
  z_stream& stream = inflater.stream;
  std::string chunk(kChunk, '\0');
  size_t taken = 0;
  while (true) {
    const size_t offered = std::min<size_t>(bytes.size() - taken, 1u << 30);
    // zlib only reads what next_in points to.
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data() + taken));
    stream.avail_in = static_cast<uInt>(offered);
    stream.next_out = reinterpret_cast<Bytef*>(chunk.data());
    stream.avail_out = static_cast<uInt>(chunk.size());
    const int status = inflate(&stream, Z_NO_FLUSH);
    taken += offered - stream.avail_in;
    TANDEM_TRY(take(std::string_view(chunk).substr(0, chunk.size() - stream.avail_out)));
    if (status == Z_STREAM_END) {
      if (!is_gzip(bytes.substr(taken))) return ok_status();
      if (inflateReset(&stream) != Z_OK) return corrupt("the gzip file is damaged");
      continue;
    }
    if (status == Z_BUF_ERROR || (status == Z_OK && stream.avail_out != 0 && taken == bytes.size())) {
      return corrupt("the gzip file is cut off");
    }
    if (status != Z_OK) return corrupt("the gzip file is damaged");
  }
}

}  // namespace

bool is_gzip(std::string_view bytes) { return bytes.size() >= 2 && bytes[0] == '\x1f' && bytes[1] == '\x8b'; }

Result<std::string> gunzip(std::string_view bytes, uint64_t limit) {
  // Count first, so that memory is allocated once, and only for a reasonable size.
  const uint64_t most = std::min(limit, kAlwaysAllowed + kMaxRatio * bytes.size());
  uint64_t size = 0;
  TANDEM_TRY(inflate_chunks(bytes, [&](std::string_view chunk) -> Status {
    size += chunk.size();
    if (size <= most) return ok_status();
    if (most == limit) return corrupt("the gzip file unpacks to more than {} bytes", limit);
    return corrupt("the gzip file of {} bytes unpacks to more than {} times as much, which no tokenizer does",
                   bytes.size(), kMaxRatio);
  }));
  std::string out;
  out.reserve(size);
  TANDEM_TRY(inflate_chunks(bytes, [&](std::string_view chunk) {
    out.append(chunk);
    return ok_status();
  }));
  return out;
}

}  // namespace tandem

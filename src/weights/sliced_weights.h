// Rows of a weight by name: "layers.0.attention.q[64:128]" are rows 64 to 127 of "layers.0.attention.q". Passes that
// split a projection into heads name the parts this way.
#pragma once

#include <charconv>
#include <string_view>

#include "base/try.h"
#include "weights/weight_provider.h"

namespace tandem {

struct SliceName {
  std::string_view whole;
  int64_t begin = 0;
  int64_t end = -1;  // -1: to the end.
};

inline SliceName parse_slice(std::string_view name) {
  const size_t open = name.rfind('['), colon = name.rfind(':');
  if (open == std::string_view::npos || colon == std::string_view::npos || colon < open || name.back() != ']') {
    return {name};
  }
  SliceName slice{name.substr(0, open)};
  std::from_chars(name.data() + open + 1, name.data() + colon, slice.begin);
  std::from_chars(name.data() + colon + 1, name.data() + name.size() - 1, slice.end);
  return slice;
}

// Another provider's weights and slices of them. It must outlive this.
class SlicedWeights final : public WeightProvider {
 public:
  explicit SlicedWeights(const WeightProvider& source) : source_(source) {}

  Status read_rows(std::string_view name, int64_t row_begin, int64_t rows, float* out) const override {
    const SliceName slice = parse_slice(name);
    return source_.read_rows(slice.whole, slice.begin + row_begin, rows, out);
  }

  Result<std::vector<float>> read_vector(std::string_view name) const override {
    const SliceName slice = parse_slice(name);
    TANDEM_ASSIGN(std::vector<float> values, source_.read_vector(slice.whole));
    if (slice.end >= 0) values = std::vector<float>(values.begin() + slice.begin, values.begin() + slice.end);
    return values;
  }

 private:
  const WeightProvider& source_;
};

}  // namespace tandem

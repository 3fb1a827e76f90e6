// The logits of all tokens, from anything that scores them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"

namespace tandem::test {

template <typename Model>
std::vector<float> score_rows(Model& model, std::span<const int32_t> tokens) {
  std::vector<float> rows;
  const Status status = model.score(tokens, [&](size_t, std::span<const float> logits) {
    rows.insert(rows.end(), logits.begin(), logits.end());
    return ok_status();
  });
  EXPECT_TRUE(status.ok()) << status.error().message;
  return rows;
}

}  // namespace tandem::test

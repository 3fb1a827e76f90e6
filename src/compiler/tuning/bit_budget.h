// Which weights get more bits, and which fewer, so that the loss is smallest for a given average.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "quant/quantize.h"
#include "tandem/status.h"

namespace tandem {

// A weight and what each of its possible formats would cost.
struct BudgetItem {
  std::string name;
  int64_t weights = 0;
  struct Choice {
    WeightSpec spec;
    double loss = 0.0;  // In any unit that adds up over the weights.
  };
  std::vector<Choice> choices;  // At least one.
};

struct Allocation {
  std::vector<WeightSpec> specs;  // For each item.
  double bits = 0.0;              // Per weight, on average.
  double loss = 0.0;              // The sum.
};

// Begins with the fewest bits everywhere and buys what reduces the loss most per bit, as long as the average allows it.
// Along each item's lower convex hull that is the optimum but for the last purchase. An error says which averages are
// possible.
Result<Allocation> allocate_bits(std::span<const BudgetItem> items, double bits);

}  // namespace tandem

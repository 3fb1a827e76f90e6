#include "compiler/tuning/bit_budget.h"

#include <algorithm>
#include <queue>

#include "base/error.h"

namespace tandem {
namespace {

// The choices from the fewest bits to the most on the lower convex hull of loss over bits: each step gains less per bit
// than the one before.
std::vector<BudgetItem::Choice> hull_of(std::vector<BudgetItem::Choice> choices) {
  std::ranges::stable_sort(choices, {}, [](const auto& choice) { return bits_per_weight(choice.spec); });
  const auto slope = [](const BudgetItem::Choice& from, const BudgetItem::Choice& to) {
    return (from.loss - to.loss) / (bits_per_weight(to.spec) - bits_per_weight(from.spec));
  };
  std::vector<BudgetItem::Choice> hull;
  for (const BudgetItem::Choice& choice : choices) {
    // More bits that lose more are never chosen.
    if (!hull.empty() && choice.loss >= hull.back().loss) continue;
    if (!hull.empty() && bits_per_weight(choice.spec) == bits_per_weight(hull.back().spec)) hull.pop_back();
    while (hull.size() >= 2 && slope(hull[hull.size() - 2], hull.back()) <= slope(hull.back(), choice)) hull.pop_back();
    hull.push_back(choice);
  }
  return hull;
}

struct Purchase {
  double gain = 0.0;  // Per bit.
  size_t item = 0;
  size_t choice = 0;
  // The largest gain first; of equal ones the first item, whatever the order of insertion.
  bool operator<(const Purchase& other) const { return gain != other.gain ? gain < other.gain : item > other.item; }
};

}  // namespace

Result<Allocation> allocate_bits(std::span<const BudgetItem> items, double bits) {
  std::vector<std::vector<BudgetItem::Choice>> hulls;
  std::vector<size_t> chosen(items.size(), 0);
  double weights = 0.0, used = 0.0, most = 0.0;
  for (const BudgetItem& item : items) {
    hulls.push_back(hull_of(item.choices));
    const auto count = static_cast<double>(item.weights);
    weights += count;
    used += count * bits_per_weight(hulls.back().front().spec);
    most += count * bits_per_weight(hulls.back().back().spec);
  }
  if (items.empty() || weights == 0.0) return invalid_argument("there are no weights whose bits could be chosen");
  constexpr double kSlack = 1e-9;
  if (bits < used / weights - kSlack || bits > most / weights + kSlack) {
    return invalid_argument("{:g} bits per weight are not possible; give {:.3f} to {:.3f}", bits, used / weights,
                            most / weights);
  }
  std::priority_queue<Purchase> offers;
  const auto offer = [&](size_t item) {
    const size_t next = chosen[item] + 1;
    if (next >= hulls[item].size()) return;
    const auto& from = hulls[item][next - 1];
    const auto& to = hulls[item][next];
    const double more = bits_per_weight(to.spec) - bits_per_weight(from.spec);
    offers.push({(from.loss - to.loss) / (more * static_cast<double>(items[item].weights)), item, next});
  };
  for (size_t i = 0; i < items.size(); ++i) offer(i);
  while (!offers.empty()) {
    const Purchase best = offers.top();
    offers.pop();
    const double more =
        static_cast<double>(items[best.item].weights) *
        (bits_per_weight(hulls[best.item][best.choice].spec) - bits_per_weight(hulls[best.item][best.choice - 1].spec));
    if (used + more > (bits + kSlack) * weights) continue;  // A smaller one may still fit.
    used += more;
    chosen[best.item] = best.choice;
    offer(best.item);
  }
  Allocation allocation;
  for (size_t i = 0; i < items.size(); ++i) {
    allocation.specs.push_back(hulls[i][chosen[i]].spec);
    allocation.loss += hulls[i][chosen[i]].loss;
  }
  allocation.bits = used / weights;
  return allocation;
}

}  // namespace tandem

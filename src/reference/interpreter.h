// A plain interpreter of graphs in float: the oracle that every back end is compared with.
//
// It executes the graph one op at a time, and nothing else. A graph whose weights have formats, whose linear layers
// quantize their input and whose caches are f16 or u8 is computed with fake quantization: numbers are rounded to what
// the format can represent, and sums are computed in float. An activation that is f16, or an integer with an encoding,
// is rounded as soon as it is computed.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "backends/interface/program.h"
#include "base/thread_pool.h"
#include "weights/weight_provider.h"

namespace tandem {

// Sees the output of an op before it is rounded. An error ends the run.
using OpObserver = std::function<Status(const ir::Op& op, const ir::Tensor& output, std::span<const float> values)>;

// The graphs must be verified. The provider and the pool must outlive the program.
std::unique_ptr<Program> make_reference_program(std::vector<ir::Graph> methods, const WeightProvider& weights,
                                                ThreadPool& pool, OpObserver observer = {});
// One method whose rows are sequences of their own, so that many decode together and every weight is read once for all:
// a state has as many copies of what its tensor says as the method has tokens, one after the other, and row n stores to
// and attends to copy n.
std::unique_ptr<Program> make_batch_program(ir::Graph method, const WeightProvider& weights, ThreadPool& pool);
// Like the first, with weights that the program keeps.
std::unique_ptr<Program> make_reference_program(std::vector<ir::Graph> methods,
                                                std::unique_ptr<const WeightProvider> weights, ThreadPool& pool);

}  // namespace tandem

#include "compiler/calibration/calibrate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "backends/interface/method_inputs.h"
#include "backends/interface/method_memory.h"
#include "base/error.h"
#include "models/builder.h"
#include "quant/score_range.h"
#include "reference/interpreter.h"
#include "weights/sliced_weights.h"
#include "weights/streaming_weights.h"

namespace tandem {
namespace {

using ir::OpKind;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
// Samples do not reach the extremes: an observed range is widened by this share on both sides.
constexpr float kHeadroom = 0.1f;
// The score of a masked slot may be any value of its encoding; the mask must bring the highest of them down to the
// lowest value of the sum.
constexpr float kMaskRoom = 1.05f;
constexpr int kPlotBins = 48;
constexpr size_t kValuesPerTask = size_t{1} << 18;

class Calibrator {
 public:
  Calibrator(const CalibrationJob& job, ThreadPool& pool) : job_(job), pool_(pool) {}

  Result<Calibration> run() {
    for (size_t i = 0; i < job_.samples.size(); ++i) {
      sample_ = i;
      TANDEM_TRY(run_sample(job_.samples[i]));
    }
    TANDEM_TRY(scan_embedding());
    Calibration calibration;
    TANDEM_ASSIGN(calibration.table, make_table());
    for (const auto& [name, observer] : observers_) calibration.histograms[name] = observer.histogram(kPlotBins);
    return calibration;
  }

 private:
  Status report_progress(size_t op, size_t ops) const {
    if (job_.stop && job_.stop()) return cancelled("stopped; the same command goes on where it was");
    if (job_.progress) {
      job_.progress({"calibrating", sample_ * ops + op, job_.samples.size() * ops});
    }
    return ok_status();
  }

  Status run_sample(const std::vector<int32_t>& tokens) {
    const auto length = static_cast<int64_t>(tokens.size());
    ir::Graph graph = build_graph(job_.plan, {"calibrate", length, length});
    const StaticForm form;  // All heads together: parts share the encodings of the whole.
    TANDEM_TRY(run_passes(graph, {job_.plan, job_.recipe, {}, &form}, {}));
    graph_ = graph;
    const StreamingWeights passing(job_.weights, job_.plan);
    const SlicedWeights weights(passing);
    size_t done = 0;
    const auto program = make_reference_program(
        {std::move(graph)}, weights, pool_,
        [&](const ir::Op& op, const ir::Tensor& output, std::span<const float> values) -> Status {
          TANDEM_TRY(report_progress(done++, graph_.ops.size()));
          observe(op, output, values);
          return ok_status();
        });
    TANDEM_ASSIGN(MethodMemory memory, MethodMemory::allocate(*program));
    // The cache is empty; rows see themselves and earlier ones. Masked scores are recognized by their infinity.
    TANDEM_ASSIGN(ir::MethodInputs inputs, ir::MethodInputs::read(graph_));
    for (ir::MaskInput& mask : inputs.masks) mask.values = ir::mask_values(DType::kF32, {});
    ir::fill_inputs(graph_, inputs, {tokens, 0, length > inputs.rope_limit}, memory.bindings(0));
    TANDEM_ASSIGN(const auto context, program->new_context());
    return context->run(0, memory.bindings(0));
  }

  void observe(const ir::Op& op, const ir::Tensor& output, std::span<const float> values) {
    switch (op.kind) {
      case OpKind::kSoftmax:
      case OpKind::kSigmoid:
      case OpKind::kRopeTable:
      case OpKind::kAppendRows:
      case OpKind::kJoinHeads: return;  // Known, or the same as their inputs.
      case OpKind::kAddMask: return observe_rows(output, values);
      case OpKind::kSplitHeads:
        if (!ir::is_new_rows(output.purpose)) return;
        break;
      case OpKind::kEmbedding:
      case OpKind::kLinear:
      case OpKind::kRmsNorm:
      case OpKind::kLayerNorm:
      case OpKind::kAdd:
      case OpKind::kMul:
      case OpKind::kScale:
      case OpKind::kSilu:
      case OpKind::kGeluTanh:
      case OpKind::kSiluMul:
      case OpKind::kGeluTanhMul:
      case OpKind::kSoftcap:
      case OpKind::kRope:
      case OpKind::kStoreKv:
      case OpKind::kAttention:
      case OpKind::kMaskToFloat:
      case OpKind::kConvert:
      case OpKind::kMatMul:
      case OpKind::kAddVector:
      case OpKind::kConcat:
      case OpKind::kQuantizedAttention:
      case OpKind::kSlice:
      case OpKind::kMaskedSoftmax:
      case OpKind::kRescore:
      case OpKind::kHadamard: break;
    }
    add_values(observers_.try_emplace(output.name, output.name).first->second, values);
  }

  // Parts of a size that does not depend on threads, and merged in their order: so the sums do not either.
  void add_values(Observer& observer, std::span<const float> values) {
    const auto count = static_cast<int64_t>((values.size() + kValuesPerTask - 1) / kValuesPerTask);
    if (count == 1) return observer.add(values);
    std::vector<Observer> parts(static_cast<size_t>(count));
    pool_.run(count, [&](int64_t task, int) {
      const size_t begin = static_cast<size_t>(task) * kValuesPerTask;
      parts[static_cast<size_t>(task)].add(values.subspan(begin, std::min(kValuesPerTask, values.size() - begin)));
    });
    for (const Observer& part : parts) observer.merge(part);
  }

  void observe_rows(const ir::Tensor& output, std::span<const float> values) {
    const auto width = static_cast<size_t>(output.shape.back());
    const size_t step = std::max<size_t>(kValuesPerTask / width, 1) * width;
    const auto count = static_cast<int64_t>((values.size() + step - 1) / step);
    std::vector<RowMaxObserver> parts(static_cast<size_t>(count));
    pool_.run(count, [&](int64_t task, int) {
      std::vector<float> visible;
      const size_t begin = static_cast<size_t>(task) * step, end = std::min(begin + step, values.size());
      for (size_t at = begin; at < end; at += width) {
        visible.clear();
        for (const float value : values.subspan(at, width)) {
          if (value != -kInfinity) visible.push_back(value);
        }
        parts[static_cast<size_t>(task)].add_row(visible);
      }
    });
    RowMaxObserver& rows = masked_.try_emplace(output.name, output.name).first->second;
    for (const RowMaxObserver& part : parts) rows.merge(part);
  }

  // Any token may occur, not only those of the samples.
  Status scan_embedding() {
    const WeightSource& table = *job_.plan.find_weight("embedding");
    const auto lookup = std::ranges::find(graph_.ops, OpKind::kEmbedding, &ir::Op::kind);
    if (lookup == graph_.ops.end()) return internal_error("the graph looks up no embedding");
    const std::string& output = graph_.at(lookup->outputs[0]).name;
    Observer& observer = observers_.try_emplace(output, output).first->second;
    const int64_t chunk = std::max<int64_t>((int64_t{1} << 20) / table.cols, 1);
    std::vector<float> values;
    for (int64_t row = 0; row < table.rows; row += chunk) {
      TANDEM_TRY(report_progress(0, 1));
      const int64_t count = std::min(chunk, table.rows - row);
      values.resize(static_cast<size_t>(count * table.cols));
      TANDEM_TRY(job_.weights.read_rows(table.name, row, count, values.data()));
      job_.weights.release_rows(table, row, count);
      add_values(observer, values);
    }
    return ok_status();
  }

  static TensorEncoding fixed(float low, float scale, int32_t zero_point) {
    TensorEncoding e;
    e.encoding = {ir::EncodingKind::kPerTensor, scale, zero_point};
    e.observed_min = low;
    e.observed_max = scale * static_cast<float>(65535 - zero_point);
    e.method = "fixed";
    return e;
  }

  Result<TensorEncoding> from_observer(const Observer& observer, DType dtype, bool symmetric) const {
    RangeOptions options;
    options.dtype = dtype;
    options.symmetric = symmetric;
    // With 256 steps a little clipping pays off; with 65536 it does not.
    options.method = dtype == DType::kU8 && !job_.method_given ? RangeMethod::kMse : job_.method;
    TANDEM_ASSIGN(Interval range, observer.choose_range(options));
    if (options.method == RangeMethod::kMinMax) {
      range.low *= 1.0f + kHeadroom;
      range.high *= 1.0f + kHeadroom;
    }
    TensorEncoding e;
    e.dtype = dtype;
    TANDEM_ASSIGN(e.encoding, make_encoding(dtype, range.low, range.high, symmetric));
    e.observed_min = observer.min();
    e.observed_max = observer.max();
    const EncodingQuality quality = observer.quality(dtype, e.encoding);
    e.clipped = quality.clipped;
    e.sqnr_db = quality.sqnr_db;
    e.method = range_method_name(options.method);
    return e;
  }

  // The scores after the mask.
  static Result<TensorEncoding> from_rows(const RowMaxObserver& rows, float factor) {
    TANDEM_ASSIGN(const Interval range, rows.range(factor));
    TensorEncoding e;
    TANDEM_ASSIGN(e.encoding,
                  make_encoding(DType::kU16, range.low, range.high + kHeadroom * std::abs(range.high), false));
    e.observed_min = range.low;
    e.observed_max = range.high;
    e.method = "row maximum";
    return e;
  }

  Result<EncodingTable> make_table() {
    EncodingTable table;
    std::map<std::string, const ir::Op*> readers;  // By masked scores: the softmax that has their factor.
    for (const ir::Op& op : graph_.ops) {
      if (op.kind == OpKind::kSoftmax) readers[graph_.at(op.inputs[0]).name] = &op;
    }
    float depth = 0.0f;
    for (const ir::Op& op : graph_.ops) {
      for (const ir::TensorId id : op.outputs) {
        TANDEM_ASSIGN(TensorEncoding e, encoding_of(op, graph_.at(id), table, readers));
        if (op.kind == OpKind::kHadamard) TANDEM_TRY(widen(graph_.at(op.inputs[0]).name, e, table));
        TANDEM_TRY(table.set(graph_.at(id).name, std::move(e)));
      }
    }
    // The layer with the largest need decides; in the others the sum saturates.
    for (const ir::Op& op : graph_.ops) {
      if (op.kind != OpKind::kAddMask) continue;
      const auto range_of = [&](ir::TensorId id) {
        const TensorEncoding& e = *table.find(graph_.at(id).name);
        return encoded_range(e.dtype, e.encoding);
      };
      depth = std::max(depth, kMaskRoom * (range_of(op.inputs[0]).high - range_of(op.outputs[0]).low));
    }
    TANDEM_TRY(table.set("mask", fixed(-depth, depth / 65535.0f, 65535)));
    int64_t tokens = 0;
    for (const auto& sample : job_.samples) tokens += static_cast<int64_t>(sample.size());
    Json about = {{"samples", job_.samples.size()},
                  {"tokens", tokens},
                  {"method", range_method_name(job_.method)},
                  {"kv", kv_format_name(job_.recipe.kv)}};
    if (!job_.source.empty()) about["source"] = job_.source;
    TANDEM_TRY(table.set_calibration(about));
    return table;
  }

  // A device's rotation saturates at the ends of its input's encoding, so that encoding covers the output's too.
  Status widen(const std::string& input, const TensorEncoding& output, EncodingTable& table) const {
    TensorEncoding e = *table.find(input);
    const auto own = encoded_range(e.dtype, e.encoding), both = encoded_range(output.dtype, output.encoding);
    if (own.low <= both.low && own.high >= both.high) return ok_status();
    TANDEM_ASSIGN(e.encoding,
                  make_encoding(e.dtype, std::min(own.low, both.low), std::max(own.high, both.high), false));
    const EncodingQuality quality = observers_.at(input).quality(e.dtype, e.encoding);
    e.clipped = quality.clipped;
    e.sqnr_db = quality.sqnr_db;
    return table.set(input, std::move(e));
  }

  Result<TensorEncoding> encoding_of(const ir::Op& op, const ir::Tensor& output, const EncodingTable& table,
                                     const std::map<std::string, const ir::Op*>& readers) const {
    const std::string& name = output.name;
    constexpr float kProbabilityScale = 1.0f / 65536.0f;
    switch (op.kind) {
      case OpKind::kSoftmax:
      case OpKind::kSigmoid: return fixed(0.0f, kProbabilityScale, 0);
      case OpKind::kRopeTable: {
        const float most = std::abs(op.attributes.factor);
        return fixed(-most, most / 32767.0f, 32768);
      }
      case OpKind::kAddMask: return from_rows(masked_.at(name), readers.at(name)->attributes.factor);
      case OpKind::kSplitHeads:
        if (!ir::is_new_rows(output.purpose)) return *table.find(graph_.at(op.inputs[0]).name);
        return from_observer(observers_.at(name), kv_dtype(job_.recipe.kv), true);
      case OpKind::kJoinHeads: return *table.find(graph_.at(op.inputs[0]).name);
      case OpKind::kAppendRows: return *table.find(graph_.at(op.inputs[1]).name);
      case OpKind::kEmbedding:
      case OpKind::kLinear:
      case OpKind::kRmsNorm:
      case OpKind::kLayerNorm:
      case OpKind::kAdd:
      case OpKind::kMul:
      case OpKind::kScale:
      case OpKind::kSilu:
      case OpKind::kGeluTanh:
      case OpKind::kSiluMul:
      case OpKind::kGeluTanhMul:
      case OpKind::kSoftcap:
      case OpKind::kRope:
      case OpKind::kStoreKv:
      case OpKind::kAttention:
      case OpKind::kMaskToFloat:
      case OpKind::kConvert:
      case OpKind::kMatMul:
      case OpKind::kAddVector:
      case OpKind::kConcat:
      case OpKind::kQuantizedAttention:
      case OpKind::kSlice:
      case OpKind::kMaskedSoftmax:
      case OpKind::kRescore:
      case OpKind::kHadamard: break;
    }
    return from_observer(observers_.at(name), DType::kU16, false);
  }

  const CalibrationJob& job_;
  ThreadPool& pool_;
  size_t sample_ = 0;
  ir::Graph graph_;  // Of the last sample; all have the same ops and names.
  std::map<std::string, Observer> observers_;
  std::map<std::string, RowMaxObserver> masked_;
};

}  // namespace

Result<Calibration> calibrate(const CalibrationJob& job, ThreadPool& pool) {
  if (job.samples.empty()) return invalid_argument("there is nothing to calibrate with");
  return Calibrator(job, pool).run();
}

}  // namespace tandem

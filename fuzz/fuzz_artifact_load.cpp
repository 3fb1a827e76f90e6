// A whole artifact, loaded and run: whatever the file says, the answer is an error or tokens.
//
// The first byte of an input picks the mode:
//   0  the rest is the file;
//   1  the rest is a list of changes {u16 offset, u8 value} to the header of a valid file, whose checksums are then put
//      right, so that what lies behind them is reached;
//   2  the rest drives edits of the header's meaning (shapes, dtypes, ops, ranges, ...) before it is written anew: that
//      gets past the FlatBuffer's verifier, and often past the graph's.
// Weights are changed too in modes 1 and 2: nobody compares their checksums here.
#include <fuzzer/FuzzedDataProvider.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "artifact/header_codec.h"
#include "artifact/preamble.h"
#include "artifact/reader.h"
#include "backends/interface/method_memory.h"
#include "base/mapped_file.h"
#include "runtime/loaded_engine.h"

namespace {

using namespace tandem;

// Sessions that would need more are only loaded: the fuzzer should find bugs, not wait for pages.
constexpr uint64_t kMaxSessionBytes = 64 << 20;

// A valid file, in two parts.
struct Base {
  std::vector<uint8_t> data;  // All before the header.
  std::vector<uint8_t> header_bytes;
  ArtifactHeader header;
};

const Base& base(bool mixed) {
  const auto load = [](const char* name) {
    const auto path = std::filesystem::path(TANDEM_SOURCE_DIR) / "tests/data/artifact" / name;
    const auto file = MappedFile::open(path);
    if (!file.ok()) std::abort();
    Preamble preamble;
    std::memcpy(&preamble, file->bytes().data(), sizeof(preamble));
    Base result;
    const auto bytes = file->bytes();
    result.data.assign(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(preamble.header_offset));
    result.header_bytes.assign(bytes.begin() + static_cast<std::ptrdiff_t>(preamble.header_offset), bytes.end());
    auto header = decode_header(bytes.subspan(preamble.header_offset), preamble.header_offset);
    if (!header.ok()) std::abort();
    result.header = *std::move(header);
    return result;
  };
  static const Base plain = load("v1.tdm"), other = load("v1_mixed.tdm");
  return mixed ? other : plain;
}

// ---- Edits of the header's meaning ----

class Editor {
 public:
  Editor(FuzzedDataProvider& input, ArtifactHeader& header) : in_(input), header_(header) {}

  void edit() {
    switch (in_.ConsumeIntegralInRange(0, 18)) {
      case 0: pick(method().tensors).shape = shape(); break;
      case 1: element(pick(method().tensors).shape) = number(); break;
      case 2: pick(method().tensors).dtype = static_cast<DType>(in_.ConsumeIntegralInRange(0, kDTypeCount - 1)); break;
      case 3: {
        ir::Tensor& t = pick(method().tensors);
        t.encoding.kind = static_cast<ir::EncodingKind>(in_.ConsumeIntegralInRange(0, ir::kEncodingKindCount - 1));
        t.encoding.scale = real();
        t.encoding.zero_point = static_cast<int32_t>(number());
        break;
      }
      case 4: {
        ir::Tensor& t = pick(method().tensors);
        t.role = static_cast<ir::TensorRole>(in_.ConsumeIntegralInRange(0, ir::kTensorRoleCount - 1));
        break;
      }
      case 5: format(pick(header_.weights)); break;
      case 6:
        pick(method().ops).kind = static_cast<ir::OpKind>(in_.ConsumeIntegralInRange(0, ir::kOpKindCount - 1));
        break;
      case 7: element(pick(method().ops).inputs) = tensor_id(); break;
      case 8: element(pick(method().ops).outputs) = tensor_id(); break;
      case 9: attributes(pick(method().ops).attributes); break;
      case 10: ranges(); break;
      case 11: segment(pick(header_.segments)); break;
      case 12: replace_number(); break;
      case 13: ops(method()); break;
      case 14: methods(); break;
      case 15: text(); break;
      case 16: pick(method().ops).inputs.push_back(tensor_id()); break;
      case 17: rename(); break;
      case 18: purpose(pick(method().tensors).purpose); break;
    }
  }

 private:
  template <typename T>
  T& pick(std::vector<T>& list) {
    if (list.empty()) list.emplace_back();
    return list[in_.ConsumeIntegralInRange<size_t>(0, list.size() - 1)];
  }
  template <typename T>
  T& element(std::vector<T>& list) {
    return pick(list);
  }
  ir::Graph& method() { return pick(header_.methods); }

  int64_t number() {
    static constexpr int64_t kNumbers[] = {0,   1,     2,       3,       4,         7,         8,         16,
                                           31,  32,    33,      48,      63,        64,        65,        96,
                                           128, 160,   255,     256,     288,       289,       65535,     65536,
                                           -1,  65537, 1 << 20, 1 << 30, INT32_MAX, 1ll << 31, 1ll << 40, INT64_MAX,
                                           -64, 320,   12,      24,      40,        INT64_MIN, INT32_MIN};
    return in_.ConsumeBool() ? in_.PickValueInArray(kNumbers) : in_.ConsumeIntegral<int16_t>();
  }
  float real() {
    static constexpr float kReals[] = {0.0f, 1.0f, -1.0f, 1e-30f, 1e30f, -1e30f, 1e-6f, 0.125f, 50.0f, 3.4e38f};
    return in_.PickValueInArray(kReals);
  }
  ir::TensorId tensor_id() { return static_cast<ir::TensorId>(in_.ConsumeIntegralInRange(-1, 120)); }
  std::vector<int64_t> shape() {
    std::vector<int64_t> result;
    for (int i = in_.ConsumeIntegralInRange(0, 4); i > 0; --i) result.push_back(number());
    return result;
  }
  void purpose(ir::Purpose& p) {
    switch (in_.ConsumeIntegralInRange(0, 3)) {
      case 0: p.kind = static_cast<ir::PurposeKind>(in_.ConsumeIntegralInRange(0, ir::kPurposeKindCount - 1)); break;
      case 1: p.layer = static_cast<int32_t>(number()); break;
      case 2: p.kv_head = static_cast<int32_t>(number()); break;
      case 3: p.limit = number(); break;
    }
  }
  void attributes(ir::OpAttributes& a) {
    switch (in_.ConsumeIntegralInRange(0, 8)) {
      case 0: a.eps = real(); break;
      case 1: a.weight_offset = real(); break;
      case 2: a.factor = real(); break;
      case 3: a.softcap = real(); break;
      case 4: a.head_dim = number(); break;
      case 5: a.interleaved = !a.interleaved; break;
      case 6: a.window = number(); break;
      case 7: a.quantize_input = !a.quantize_input; break;
      case 8: a.int16_input = !a.int16_input; break;
    }
  }
  void format(WeightEntry& weight) {
    const auto wanted = static_cast<WeightFormat>(in_.ConsumeIntegralInRange(0, kWeightFormatCount - 1));
    const int block = in_.PickValueInArray({0, 16, 32, 64, 7});
    const int64_t rows = in_.ConsumeBool() ? weight.rows : number();
    // Often in the graphs too: then only the sizes are wrong.
    const bool everywhere = in_.ConsumeBool();
    for (ir::Graph& graph : header_.methods) {
      for (ir::Tensor& t : graph.tensors) {
        if (!everywhere || t.name != weight.name) continue;
        t.format = wanted;
        t.block = block;
        if (!t.shape.empty()) t.shape[0] = rows;
      }
      for (ir::Op& op : graph.ops) {
        if (everywhere && op.kind == ir::OpKind::kLinear && op.inputs.size() > 1 && op.inputs[1] >= 0 &&
            static_cast<size_t>(op.inputs[1]) < graph.tensors.size() && graph.at(op.inputs[1]).name == weight.name) {
          op.attributes.quantize_input = is_quantized(wanted);
        }
      }
    }
    weight.format = wanted;
    weight.block = block;
    weight.rows = rows;
  }
  void ranges() {
    WeightEntry& weight = pick(header_.weights);
    Range* list[] = {&weight.data, &weight.scales, &weight.multipliers, &pick(header_.vectors).data,
                     &header_.text.tokenizer};
    Range& range = *list[in_.ConsumeIntegralInRange(0, 4)];
    switch (in_.ConsumeIntegralInRange(0, 3)) {
      case 0: range.segment = in_.ConsumeIntegralInRange(0u, 8u); break;
      case 1: range.offset = static_cast<uint64_t>(number()); break;
      case 2: range.size = static_cast<uint64_t>(number()); break;
      case 3: range = *list[in_.ConsumeIntegralInRange(0, 4)]; break;
    }
  }
  void segment(Segment& s) {
    switch (in_.ConsumeIntegralInRange(0, 2)) {
      case 0:
        s.offset = in_.ConsumeBool() ? kSegmentAlignment * in_.ConsumeIntegral<uint8_t>() : uint64_t(number());
        break;
      case 1: s.size = static_cast<uint64_t>(number()); break;
      case 2: s = pick(header_.segments); break;
    }
  }
  // One number by another, wherever it stands: a context, a width, a vocabulary. Such a header is often sound.
  void replace_number() {
    const int64_t from = in_.PickValueInArray<int64_t>({1, 2, 8, 16, 32, 64, 128, 160, 288});
    const int64_t to = number();
    const bool weights = in_.ConsumeBool();
    for (ir::Graph& graph : header_.methods) {
      if (graph.context == from) graph.context = to;
      if (graph.tokens == from) graph.tokens = to;
      for (ir::Tensor& t : graph.tensors) {
        if (!weights && (t.role == ir::TensorRole::kWeight || t.role == ir::TensorRole::kVector)) continue;
        std::ranges::replace(t.shape, from, to);
      }
      for (ir::Op& op : graph.ops) {
        if (op.attributes.head_dim == from) op.attributes.head_dim = to;
      }
    }
    if (!weights) return;
    if (header_.model.vocab_size == from) header_.model.vocab_size = to;
    for (WeightEntry& w : header_.weights) {
      if (w.rows == from) w.rows = to;
      if (w.cols == from) w.cols = to;
    }
  }
  void ops(ir::Graph& graph) {
    const ir::Op copy = pick(graph.ops);
    const auto at = static_cast<std::ptrdiff_t>(in_.ConsumeIntegralInRange<size_t>(0, graph.ops.size() - 1));
    switch (in_.ConsumeIntegralInRange(0, 2)) {
      case 0: graph.ops.erase(graph.ops.begin() + at); break;
      case 1: graph.ops.insert(graph.ops.begin() + at, copy); break;
      case 2: std::swap(graph.ops[static_cast<size_t>(at)], pick(graph.ops)); break;
    }
  }
  void methods() {
    switch (in_.ConsumeIntegralInRange(0, 3)) {
      case 0: method().name = "decode"; break;
      case 1: method().tokens = number(); break;
      case 2: method().context = number(); break;
      case 3:
        if (header_.methods.size() < 4) {
          header_.methods.push_back(method());
          header_.methods.back().name = "again";
        } else {
          header_.methods.pop_back();
        }
        break;
    }
  }
  void text() {
    switch (in_.ConsumeIntegralInRange(0, 4)) {
      case 0: header_.text.has_tokenizer = !header_.text.has_tokenizer; break;
      case 1: header_.text.eos_ids.push_back(static_cast<int32_t>(number())); break;
      case 2: header_.model.vocab_size = number(); break;
      case 3: header_.generation.temperature = real(); break;
      case 4: header_.text.chat_template = in_.ConsumeRandomLengthString(64); break;
    }
  }
  void rename() {
    ir::Graph& graph = method();
    std::swap(pick(graph.tensors).name, pick(graph.tensors).name);
  }

  FuzzedDataProvider& in_;
  ArtifactHeader& header_;
};

// ---- The file and its run ----

// A file in memory, with a path.
class MemoryFile {
 public:
  MemoryFile() : fd_(::memfd_create("fuzz", MFD_CLOEXEC)), path_("/proc/self/fd/" + std::to_string(fd_)) {
    if (fd_ < 0) std::abort();
  }
  const std::string& path() const { return path_; }
  void write(const std::vector<uint8_t>& bytes) {
    if (::ftruncate(fd_, static_cast<off_t>(bytes.size())) != 0) std::abort();
    if (::pwrite(fd_, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) std::abort();
  }

 private:
  int fd_;
  std::string path_;
};

// Assembles a file with correct checksums.
std::vector<uint8_t> assemble(const std::vector<uint8_t>& data, const std::vector<uint8_t>& header) {
  std::vector<uint8_t> file = data;
  file.insert(file.end(), header.begin(), header.end());
  Preamble preamble;
  preamble.version = kArtifactVersion;
  preamble.file_size = file.size();
  preamble.header_offset = data.size();
  preamble.header_size = header.size();
  preamble.header_hash = hash_bytes(header);
  const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(&preamble), sizeof(preamble));
  preamble.preamble_hash = hash_bytes(bytes.first(sizeof(preamble) - sizeof(uint64_t)));
  std::memcpy(file.data(), &preamble, sizeof(preamble));
  return file;
}

uint64_t session_bytes(const LoadedEngine& engine) {
  uint64_t total = 0;
  for (const ir::Graph& graph : engine.artifact().header().methods) {
    for (const ir::Tensor& t : graph.tensors) {
      if (t.role == ir::TensorRole::kWeight || t.role == ir::TensorRole::kVector) continue;
      total += std::min<uint64_t>(tensor_bytes(t), uint64_t{1} << 40);
    }
  }
  return total;
}

void load_and_run(const std::string& path) {
  auto engine = LoadedEngine::load(path, {.threads = 1, .verify = VerifyWeights::kNever});
  if (!engine.ok()) {
    if (engine.error().message.empty()) std::abort();
    return;
  }
  if (session_bytes(**engine) > kMaxSessionBytes) return;
  auto session = (*engine)->new_session();
  if (!session.ok()) return;
  const std::vector<int32_t> prompt = {1, 2, 0};
  GenerateOptions options;
  options.max_new_tokens = 2;
  options.ignore_eos = true;
  const auto result = (*session)->generate(prompt, options, {});
  if (!result.ok() && result.error().message.empty()) std::abort();
  if (result.ok()) (void)(*session)->generate(std::vector<int32_t>(9, 3), options, {});
}

void fix_tokenizer_hash(const std::vector<uint8_t>& data, ArtifactHeader& header) {
  const size_t segment = header.text.tokenizer.segment;
  if (segment >= header.segments.size()) return;
  Segment& s = header.segments[segment];
  if (s.offset > data.size() || s.size > data.size() - s.offset) return;
  s.hash = hash_bytes(std::span(data).subspan(s.offset, s.size));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static MemoryFile file;
  if (size == 0) return 0;
  const uint8_t mode = bytes[0] % 8;
  const Base& valid = base((bytes[0] & 0x80) != 0);
  if (mode == 0) {
    file.write({bytes + 1, bytes + size});
    load_and_run(file.path());
    return 0;
  }
  std::vector<uint8_t> data = valid.data;
  if (mode == 1) {
    std::vector<uint8_t> header = valid.header_bytes;
    for (size_t i = 1; i + 3 <= size; i += 3) {
      header[static_cast<size_t>(bytes[i] | bytes[i + 1] << 8) % header.size()] = bytes[i + 2];
    }
    file.write(assemble(data, header));
    load_and_run(file.path());
    return 0;
  }
  FuzzedDataProvider input(bytes + 1, size - 1);
  ArtifactHeader header = valid.header;
  Editor editor(input, header);
  for (int edits = 0; edits < 8 && input.remaining_bytes() > 0; ++edits) {
    if (input.ConsumeIntegralInRange(0, 7) == 0) {
      const auto at = input.ConsumeIntegralInRange<size_t>(0, data.size() - 1);
      data[at] = input.ConsumeIntegral<uint8_t>();
    } else {
      editor.edit();
    }
  }
  fix_tokenizer_hash(data, header);
  file.write(assemble(data, encode_header(header)));
  load_and_run(file.path());
  return 0;
}

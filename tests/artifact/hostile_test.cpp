// Headers and preambles made to be wrong, with checksums that match.
#include <flatbuffers/flatbuffers.h>
#include <gtest/gtest.h>

#include <limits>

#include "artifact/sample_artifact.h"

namespace tandem {
namespace hostile_test {

using test::TempFolder;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct Hostile {
  const char* name;
  std::function<void(ArtifactHeader&)> break_it;
  std::vector<const char*> words;  // All of them are in the message.
};

ir::Tensor& tensor(ArtifactHeader& header, std::string_view name) {
  return header.methods[0].at(header.methods[0].find(name).value());
}

WeightEntry& weight(ArtifactHeader& header, std::string_view name) {
  for (WeightEntry& entry : header.weights) {
    if (entry.name == name) return entry;
  }
  ADD_FAILURE() << name;
  return header.weights[0];
}

const std::vector<Hostile>& hostile_headers() {
  using H = ArtifactHeader;
  static const std::vector<Hostile> list = {
      // Segments.
      {"SegmentsOverlap",
       [](H& h) {
         h.segments[0].size = 2 * kSegmentAlignment;
         h.segments[1].offset = 2 * kSegmentAlignment;
       },
       {"\"layers.0\"", "\"vectors\"", "overlap"}},
      {"SegmentsAreOne", [](H& h) { h.segments[2].offset = h.segments[1].offset; }, {"overlap"}},
      {"SegmentOnThePreamble", [](H& h) { h.segments[0].offset = 0; }, {"\"layers.0\"", "outside"}},
      {"SegmentOnTheHead", [](H& h) { h.segments[2].size = 2 * kSegmentAlignment; }, {"\"tokenizer\"", "outside"}},
      {"SegmentBeyondTheEnd",
       [](H& h) { h.segments[2].offset = 64 * kSegmentAlignment; },
       {"\"tokenizer\"", "outside"}},
      {"SegmentHuge", [](H& h) { h.segments[0].size = UINT64_MAX; }, {"\"layers.0\"", "outside"}},
      {"SegmentWrapsAround",
       [](H& h) { h.segments[0].size = UINT64_MAX - kSegmentAlignment + 2; },
       {"\"layers.0\"", "outside"}},
      {"SegmentOffsetHuge",
       [](H& h) { h.segments[0].offset = UINT64_MAX / kSegmentAlignment * kSegmentAlignment; },
       {"\"layers.0\"", "outside"}},
      {"SegmentOffThePage", [](H& h) { h.segments[0].offset += 64; }, {"\"layers.0\"", "outside"}},
      {"SegmentsTooMany",
       [](H& h) {
         h.segments.resize(70'000, {"empty", kSegmentAlignment, 0, 0});
       },
       {"70000 segments"}},
      {"SegmentNameTooLong", [](H& h) { h.segments[0].name = std::string(10'000, 'x'); }, {"name", "10000"}},
      // Ranges.
      {"RangeBeyondItsSegment",
       [](H& h) { weight(h, "head").data.offset = h.segments[0].size; },
       {"\"head\"", "outside"}},
      {"RangeLongerThanItsSegment",
       [](H& h) {
         weight(h, "head").scales = {1, 0, h.segments[1].size + 1};
       },
       {"\"head\"", "outside"}},
      {"RangeWrapsAround",
       [](H& h) {
         weight(h, "head").data = {0, 64, UINT64_MAX - 32};
       },
       {"\"head\"", "outside"}},
      {"RangeInNoSegment", [](H& h) { weight(h, "head").data.segment = 3; }, {"\"head\"", "outside"}},
      {"RangeInAHugeSegment", [](H& h) { weight(h, "head").data.segment = UINT32_MAX; }, {"\"head\"", "outside"}},
      {"RangeOffTheLine", [](H& h) { weight(h, "head").data.offset += 4; }, {"\"head\"", "outside"}},
      {"TokenizerOutside", [](H& h) { h.text.tokenizer.size = 101; }, {"tokenizer", "outside"}},
      {"TokenizerNowhere", [](H& h) { h.text.tokenizer = {}; }, {"tokenizer", "no bytes"}},
      {"VectorOutside", [](H& h) { h.vectors[0].data.offset = 1 << 20; }, {"\"layers.0.norm\"", "outside"}},
      // Weights and vectors.
      {"WeightRowsNegative", [](H& h) { weight(h, "head").rows = -24; }, {"\"head\"", "[-24, 16]"}},
      {"WeightColsZero", [](H& h) { weight(h, "head").cols = 0; }, {"\"head\"", "[24, 0]"}},
      {"WeightRowsHuge", [](H& h) { weight(h, "head").rows = INT64_MAX; }, {"\"head\""}},
      {"WeightFormatUnknown",
       [](H& h) { weight(h, "head").format = static_cast<WeightFormat>(77); },
       {"weight format 77", "newer"}},
      {"WeightLayoutUnknown",
       [](H& h) { weight(h, "head").layout = static_cast<WeightLayout>(77); },
       {"weight layout 77", "newer"}},
      {"WeightTwice", [](H& h) { h.weights.push_back(h.weights[0]); }, {"two weights", "\"embedding\""}},
      {"WeightAbsent", [](H& h) { h.weights.pop_back(); }, {"\"decode\"", "absent weight", "\"head\""}},
      {"WeightOfAnotherShape", [](H& h) { weight(h, "head").rows = 25; }, {"\"head\"", "\"decode\""}},
      {"WeightOfAnotherFormat",
       [](H& h) { weight(h, "head").format = WeightFormat::kF32; },
       {"\"head\"", "\"decode\""}},
      {"WeightOfAnotherBlock", [](H& h) { weight(h, "layers.0.q").block = 32; }, {"\"layers.0.q\"", "\"decode\""}},
      {"WeightsTooMany", [](H& h) { h.weights.resize(70'000); }, {"70000 weights"}},
      {"VectorAbsent", [](H& h) { h.vectors.pop_back(); }, {"\"decode\"", "absent vector", "\"layers.0.q.bias\""}},
      {"VectorTwice", [](H& h) { h.vectors.push_back(h.vectors[0]); }, {"two vectors", "\"layers.0.norm\""}},
      {"VectorTooLong", [](H& h) { h.vectors[0].length = 17; }, {"\"layers.0.norm\"", "17"}},
      {"VectorNegative", [](H& h) { h.vectors[0].length = -16; }, {"\"layers.0.norm\"", "-16"}},
      {"VectorHuge", [](H& h) { h.vectors[0].length = INT64_MAX; }, {"\"layers.0.norm\""}},
      {"VectorWithoutBytes", [](H& h) { h.vectors[0].data = {}; }, {"\"layers.0.norm\""}},
      {"VectorOfAnotherLength",
       [](H& h) {
         h.vectors[0].length = 8;
         h.vectors[0].data.size = 32;
       },
       {"\"layers.0.norm\"", "\"decode\""}},
      // Methods.
      {"NoMethods", [](H& h) { h.methods.clear(); }, {"no methods"}},
      {"TwoMethodsOfOneName", [](H& h) { h.methods[1].name = "decode"; }, {"two methods", "\"decode\""}},
      {"MethodsTooMany", [](H& h) { h.methods.resize(100, h.methods[0]); }, {"100 methods"}},
      {"GraphWithACycle",
       [](H& h) { h.methods[0].ops[3].inputs[0] = *h.methods[0].find("y"); },
       {"\"decode\"", "op 3", "\"y\" before"}},
      {"GraphReadsAnAbsentTensor", [](H& h) { h.methods[0].ops[3].inputs[0] = 99; }, {"op 3", "tensor 99"}},
      {"GraphReadsANegativeTensor", [](H& h) { h.methods[0].ops[3].inputs[0] = -2; }, {"op 3", "tensor -2"}},
      {"GraphWithNegativeDims",
       [](H& h) {
         tensor(h, "h").shape = {1, -16};
       },
       {"\"h\"", "-16"}},
      {"GraphWithHugeDims",
       [](H& h) {
         tensor(h, "h").shape = {1, INT64_MAX};
       },
       {"\"h\"", "dimension"}},
      {"GraphWithManyDims", [](H& h) { tensor(h, "h").shape.resize(1000, 1); }, {"\"h\"", "1000 dimensions"}},
      {"GraphTokensNegative", [](H& h) { h.methods[0].tokens = -1; }, {"\"decode\"", "-1 tokens"}},
      {"GraphContextHuge", [](H& h) { h.methods[0].context = INT64_MAX; }, {"\"decode\"", "too large"}},
      {"GraphWithTooManyTensors",
       [](H& h) { h.methods[0].tensors.resize(70'000, h.methods[0].tensors[0]); },
       {"70000 tensors"}},
      {"GraphWithTooManyOps", [](H& h) { h.methods[0].ops.resize(70'000, h.methods[0].ops[0]); }, {"70000 ops"}},
      {"OpWithTooManyInputs", [](H& h) { h.methods[0].ops[0].inputs.resize(1000, 0); }, {"1000 inputs"}},
      {"OpUnknown", [](H& h) { h.methods[0].ops[0].kind = static_cast<ir::OpKind>(99); }, {"op 99", "newer"}},
      {"RoleUnknown", [](H& h) { tensor(h, "h").role = static_cast<ir::TensorRole>(9); }, {"role 9", "newer"}},
      {"DtypeUnknown", [](H& h) { tensor(h, "h").dtype = static_cast<DType>(99); }, {"dtype 99", "newer"}},
      {"EncodingUnknown",
       [](H& h) { tensor(h, "h").encoding.kind = static_cast<ir::EncodingKind>(9); },
       {"encoding 9", "newer"}},
      {"AttributeNaN", [](H& h) { h.methods[0].ops[3].attributes.eps = kNaN; }, {"op 3", "attribute"}},
      // The rest.
      {"NoVocabulary", [](H& h) { h.model.vocab_size = 0; }, {"vocabulary of 0"}},
      {"VocabularyNegative", [](H& h) { h.model.vocab_size = -5; }, {"vocabulary of -5"}},
      {"TemperatureNaN", [](H& h) { h.generation.temperature = kNaN; }, {"generation", "not a number"}},
      {"EndTokensTooMany", [](H& h) { h.text.eos_ids.resize(5000); }, {"5000 end tokens"}},
      {"FiguresTooMany", [](H& h) { h.metrics.resize(5000); }, {"5000 metrics"}},
  };
  return list;
}

class HostileHeader : public ::testing::TestWithParam<size_t> {};

TEST_P(HostileHeader, IsRefusedByName) {
  const Hostile& hostile = hostile_headers()[GetParam()];
  ArtifactHeader header = test::placed_header();
  hostile.break_it(header);
  const TempFolder folder;
  test::write_around(folder / "hostile.tdm", encode_header(header));
  const auto artifact = Artifact::open(folder / "hostile.tdm");
  ASSERT_FALSE(artifact.ok());
  EXPECT_EQ(artifact.error().message.find((folder / "hostile.tdm").string()), 0u) << artifact.error().message;
  for (const char* word : hostile.words) {
    EXPECT_NE(artifact.error().message.find(word), std::string::npos) << artifact.error().message;
  }
}

INSTANTIATE_TEST_SUITE_P(Artifact, HostileHeader, ::testing::Range(size_t{0}, hostile_headers().size()),
                         [](const auto& param) { return std::string(hostile_headers()[param.param].name); });

TEST(SoundHeader, TheHelperWritesFilesThatOpen) {
  const TempFolder folder;
  test::write_around(folder / "good.tdm", encode_header(test::placed_header()));
  const auto artifact = Artifact::open(folder / "good.tdm");
  EXPECT_TRUE(artifact.ok()) << artifact.error().message;
}

// ---- Preambles ----

struct HostilePreamble {
  std::function<void(Preamble&)> tweak;
  const char* word;
  ErrorCode code = ErrorCode::kCorrupt;
};

TEST(HostilePreamble, IsRefused) {
  const auto header = encode_header(test::placed_header());
  const TempFolder folder;
  const HostilePreamble list[] = {
      {[](Preamble& p) { p.version = 0; }, "version 0", ErrorCode::kUnsupported},
      {[](Preamble& p) { p.version = 2; }, "version 2", ErrorCode::kUnsupported},
      {[](Preamble& p) { p.version = UINT32_MAX; }, "version 4294967295", ErrorCode::kUnsupported},
      {[](Preamble& p) { p.magic[0] = 't'; }, "not a tandem file"},
      {[](Preamble& p) { p.file_size = 0; }, "should have 0 bytes"},
      {[](Preamble& p) { p.file_size += 1; }, "should have"},
      {[](Preamble& p) { p.header_offset = 0; }, "outside"},
      {[](Preamble& p) { p.header_offset = 32; }, "outside"},
      {[](Preamble& p) { p.header_offset += 8; }, "outside"},
      {[](Preamble& p) { p.header_offset = p.file_size + 64; }, "outside"},
      {[](Preamble& p) { p.header_offset = UINT64_MAX - 63; }, "outside"},
      {[](Preamble& p) { p.header_size += 1; }, "outside"},
      {[](Preamble& p) { p.header_size = UINT64_MAX; }, "outside"},
      {[](Preamble& p) { p.header_size -= 1; }, "header is damaged"},
      {[](Preamble& p) { p.header_size = 0; }, "header is damaged"},
      {[](Preamble& p) { p.header_offset -= kSegmentAlignment; }, "header is damaged"},
      {[](Preamble& p) { p.header_hash ^= 1; }, "header is damaged"},
      {[](Preamble& p) {
         p.header_size = 0;
         p.header_hash = hash_bytes({});
       },
       "not a valid FlatBuffer"},
  };
  for (const HostilePreamble& hostile : list) {
    test::write_around(folder / "hostile.tdm", header, hostile.tweak);
    const auto artifact = Artifact::open(folder / "hostile.tdm");
    ASSERT_FALSE(artifact.ok()) << hostile.word;
    EXPECT_EQ(artifact.error().code, hostile.code) << artifact.error().message;
    EXPECT_NE(artifact.error().message.find(hostile.word), std::string::npos) << artifact.error().message;
  }
}

// ---- Small files that would be huge once copied ----

// Field `i` of a table is at 4 + 2 * i in its vtable; the numbers follow artifact.fbs.
constexpr flatbuffers::voffset_t field(int i) { return static_cast<flatbuffers::voffset_t>(4 + 2 * i); }

using AnyTable = flatbuffers::Offset<flatbuffers::Table>;
using Builder = flatbuffers::FlatBufferBuilder;

std::vector<uint8_t> head_around_method(Builder& b, flatbuffers::uoffset_t tensors, flatbuffers::uoffset_t ops) {
  const auto name = b.CreateString("decode");
  auto start = b.StartTable();
  b.AddElement<int64_t>(field(3), 24, 0);  // Model.vocab_size
  const AnyTable model(b.EndTable(start));
  start = b.StartTable();
  b.AddOffset(field(0), name);
  b.AddElement<int64_t>(field(1), 1, 0);  // tokens
  b.AddElement<int64_t>(field(2), 8, 0);  // context
  if (tensors != 0) b.AddOffset(field(3), flatbuffers::Offset<void>(tensors));
  if (ops != 0) b.AddOffset(field(4), flatbuffers::Offset<void>(ops));
  const AnyTable method(b.EndTable(start));
  const auto methods = b.CreateVector(std::vector<AnyTable>{method});
  start = b.StartTable();
  b.AddOffset(field(3), model);
  b.AddOffset(field(7), methods);
  b.Finish(AnyTable(b.EndTable(start)));
  return {b.GetBufferPointer(), b.GetBufferPointer() + b.GetSize()};
}

TEST(InflatedHeader, ManyOpsThatAreOne) {
  Builder b;
  const auto inputs = b.CreateVector(std::vector<int32_t>(200'000, 0));
  const auto start = b.StartTable();
  b.AddOffset(field(1), inputs);
  const AnyTable op(b.EndTable(start));
  // 60,000 copies of a list of 200,000 would be 48 GB.
  const auto ops = b.CreateVector(std::vector<AnyTable>(60'000, op));
  const auto bytes = head_around_method(b, 0, ops.o);
  EXPECT_LT(bytes.size(), 2'000'000u);
  const auto header = decode_header(bytes, test::kPlacedEnd);
  ASSERT_FALSE(header.ok());
  EXPECT_NE(header.error().message.find("200000 inputs"), std::string::npos) << header.error().message;
}

TEST(InflatedHeader, ManyNamesThatAreOne) {
  Builder b;
  const auto name = b.CreateString(std::string(1'000'000, 'n'));
  const auto start = b.StartTable();
  b.AddOffset(field(0), name);
  const AnyTable tensor(b.EndTable(start));
  const auto tensors = b.CreateVector(std::vector<AnyTable>(60'000, tensor));
  const auto header = decode_header(head_around_method(b, tensors.o, 0), test::kPlacedEnd);
  ASSERT_FALSE(header.ok());
  EXPECT_NE(header.error().message.find("name"), std::string::npos) << header.error().message;
}

TEST(InflatedHeader, MoreTablesThanBytes) {
  Builder b;
  const auto start = b.StartTable();
  const AnyTable tensor(b.EndTable(start));
  const auto tensors = b.CreateVector(std::vector<AnyTable>(60'000, tensor));
  const auto header = decode_header(head_around_method(b, tensors.o, 0), test::kPlacedEnd);
  ASSERT_FALSE(header.ok());
  EXPECT_NE(header.error().message.find("not a valid FlatBuffer"), std::string::npos) << header.error().message;
}

}  // namespace hostile_test
}  // namespace tandem

#include "checkpoint/torch/pickle_reader.h"

#include "checkpoint/support.h"
#include "support/torch_writer.h"

namespace tandem {
namespace pickle_reader_test {

using test::as_bytes;
using test::pickle_global;
using test::pickle_int;
using test::pickle_text;
using Kind = PickleValue::Kind;

std::string proto(const std::string& rest) { return std::string("\x80\x02", 2) + rest + "."; }

void expect_error(const std::string& pickle, ErrorCode code, std::string_view says) {
  const auto tree = PickleTree::parse(as_bytes(pickle), "f.pth");
  ASSERT_FALSE(tree.ok()) << says;
  EXPECT_EQ(tree.error().code, code) << tree.error().message;
  EXPECT_NE(tree.error().message.find(says), std::string::npos) << tree.error().message;
}

TEST(Pickle, ReadsValues) {
  // {"a": 1, "b": -2, "c": 300, "d": None, "e": True, "f": 0.5, "g": [1, "x"], "h": (), 5: False, "i": -1}
  const std::string pickle = proto(
      "}(" + pickle_text("a") + "K\x01" + pickle_text("b") + std::string("J\xfe\xff\xff\xff", 5) + pickle_text("c") +
      std::string("M\x2c\x01", 3) + pickle_text("d") + "N" + pickle_text("e") + "\x88" + pickle_text("f") +
      std::string("G\x3f\xe0\0\0\0\0\0\0", 9) + pickle_text("g") + "](" + "K\x01" + std::string("\x8c\x01x", 3) + "e" +
      pickle_text("h") + ")" + "K\x05\x89" + pickle_text("i") + std::string("\x8a\x01\xff", 3) + "u");
  const auto tree = PickleTree::parse(as_bytes(pickle), "f");
  ASSERT_TRUE(tree.ok()) << tree.error().message;
  const PickleValue& root = tree->root();
  EXPECT_EQ(root.kind, Kind::kDict);
  EXPECT_EQ(tree->find(root, "a")->integer, 1);
  EXPECT_EQ(tree->find(root, "b")->integer, -2);
  EXPECT_EQ(tree->find(root, "c")->integer, 300);
  EXPECT_EQ(tree->find(root, "d")->kind, Kind::kNone);
  EXPECT_EQ(tree->find(root, "e")->integer, 1);
  EXPECT_EQ(tree->find(root, "f")->number, 0.5);
  EXPECT_EQ(tree->at(tree->find(root, "g")->items[1]).text, "x");
  EXPECT_EQ(tree->find(root, "h")->kind, Kind::kTuple);
  EXPECT_EQ(tree->find(root, "i")->integer, -1);
  EXPECT_EQ(tree->find(root, "z"), nullptr);
}

TEST(Pickle, ReadsSharedAndCyclicValues) {
  // a = []; a.append(a); {"x": a, "y": a}
  const std::string pickle =
      proto("}(" + pickle_text("x") + std::string("]q\0h\0a", 6) + pickle_text("y") + std::string("h\0", 2) + "u");
  const auto tree = PickleTree::parse(as_bytes(pickle), "f");
  ASSERT_TRUE(tree.ok()) << tree.error().message;
  EXPECT_EQ(tree->find(tree->root(), "x"), tree->find(tree->root(), "y"));
  EXPECT_EQ(&tree->at(tree->find(tree->root(), "x")->items[0]), tree->find(tree->root(), "x"));
}

TEST(Pickle, ReadsTensorsAndParameters) {
  test::TorchWriter writer;
  const std::string tensor = writer.tensor({.shape = {2, 3}, .data = std::string(24, 'x'), .parameter = true});
  const auto tree = PickleTree::parse(as_bytes(proto(tensor)), "f");
  ASSERT_TRUE(tree.ok()) << tree.error().message;
  EXPECT_EQ(tree->root().kind, Kind::kTensor);
  EXPECT_EQ(tree->root().shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(tree->root().strides, (std::vector<int64_t>{3, 1}));
  const PickleValue& storage = tree->at(tree->root().items[0]);
  EXPECT_EQ(storage.storage_type, "FloatStorage");
  EXPECT_EQ(storage.integer, 6);
  EXPECT_EQ(storage.text, "0");
}

// A state_dict is an OrderedDict with an attribute, which the pickle sets with BUILD.
TEST(Pickle, ReadsAnOrderedDictWithAttributes) {
  const auto tree = PickleTree::parse(as_bytes(proto(pickle_global("collections", "OrderedDict") + ")R(" +
                                                     pickle_text("k") + "K\x07u}" + pickle_text("_metadata") + "}sb")),
                                      "f");
  ASSERT_TRUE(tree.ok()) << tree.error().message;
  EXPECT_EQ(tree->find(tree->root(), "k")->integer, 7);
}

TEST(Pickle, EveryOtherGlobalIsRefusedByName) {
  const std::pair<const char*, const char*> globals[] = {
      {"os", "system"},
      {"posix", "system"},
      {"builtins", "eval"},
      {"builtins", "getattr"},
      {"subprocess", "Popen"},
      {"torch", "load"},
      {"torch._utils", "_rebuild_tensor_v3"},
      {"torch", "FloatStorageX"},
      {"__builtin__", "exec"},
      {"numpy.core.multiarray", "_reconstruct"},
      {"collections", "defaultdict"},
      {"", ""},
  };
  for (const auto& [module, name] : globals) {
    const std::string full = std::string(module) + "." + name;
    expect_error(proto(pickle_global(module, name) + pickle_text("echo") + "\x85R"), ErrorCode::kUnsupported,
                 "names " + full);
    // As protocol 4 writes it.
    expect_error(proto(pickle_text(module) + pickle_text(name) + "\x93"), ErrorCode::kUnsupported, "names " + full);
  }
  // A long name is cut, a name with control characters escaped.
  expect_error(proto(pickle_global(std::string(100'000, 'm'), "f")), ErrorCode::kUnsupported, "mmmm");
  expect_error(proto(pickle_global("a\x1b[31m", "f")), ErrorCode::kUnsupported, "names a");
}

TEST(Pickle, EveryOtherOpcodeIsRefusedByName) {
  const std::pair<uint8_t, const char*> opcodes[] = {
      {'0', "POP"},          {'1', "POP_MARK"},
      {'2', "DUP"},          {'F', "FLOAT"},
      {'I', "INT"},          {'L', "LONG"},
      {'P', "PERSID"},       {'S', "STRING"},
      {'T', "BINSTRING"},    {'U', "SHORT_BINSTRING"},
      {'V', "UNICODE"},      {'d', "DICT"},
      {'g', "GET"},          {'i', "INST"},
      {'l', "LIST"},         {'o', "OBJ"},
      {'p', "PUT"},          {0x81, "NEWOBJ"},
      {0x82, "EXT1"},        {0x83, "EXT2"},
      {0x84, "EXT4"},        {0x8b, "LONG4"},
      {'B', "BINBYTES"},     {'C', "SHORT_BINBYTES"},
      {0x8e, "BINBYTES8"},   {0x8f, "EMPTY_SET"},
      {0x90, "ADDITEMS"},    {0x91, "FROZENSET"},
      {0x92, "NEWOBJ_EX"},   {0x96, "BYTEARRAY8"},
      {0x97, "NEXT_BUFFER"}, {0x98, "READONLY_BUFFER"},
      {0x07, "0x07"},        {0xff, "0xff"},
  };
  for (const auto& [code, name] : opcodes) {
    expect_error(proto(std::string("NN") + static_cast<char>(code) + "xxxxxxxxxxxx\n"), ErrorCode::kUnsupported,
                 "uses " + std::string(name) + ",");
  }
}

TEST(Pickle, RefusesNonsense) {
  const std::string storage = "(" + pickle_text("storage") + pickle_global("torch", "FloatStorage") + pickle_text("0") +
                              pickle_text("cpu") + pickle_int(6) + "tQ";
  const std::string rebuild = pickle_global("torch._utils", "_rebuild_tensor_v2");
  const std::pair<std::string, const char*> cases[] = {
      {"", "has not made"},
      {"t", "has not made"},
      {"\x85", "has not made"},
      {"K\x01(\x85", "has not made"},  // Not below a mark.
      {"R", "has not made"},
      {"b", "has not made"},
      {std::string("q\0", 2), "has not made"},
      {std::string("h\x05", 2), "not kept"},
      {"K\x01K\x02"
       "a",
       "adds items to a whole number"},
      {"](K\x01u", "adds items to a list"},
      {"}(K\x01u", "key without a value"},
      {"NNR", "calls None"},
      {pickle_global("collections", "OrderedDict") + "]R", "calls a function"},
      {pickle_global("collections", "OrderedDict") + "]\x85R", "from a list"},
      {pickle_global("torch", "FloatStorage") + ")R", "calls torch.FloatStorage"},
      {"]}b", "attributes of a list"},
      {"NQ", "storage"},
      {"(" + pickle_text("module") + pickle_global("torch", "FloatStorage") + pickle_text("0") + "NK\x01tQ", "storage"},
      {"(" + pickle_text("storage") + pickle_text("os.system") + pickle_text("0") + "NK\x01tQ", "storage"},
      {"(" + pickle_text("storage") + pickle_global("torch", "FloatStorage") + pickle_text("0") + "N" + pickle_int(-1) +
           "tQ",
       "storage"},
      {rebuild + ")R", "wrong arguments"},
      {rebuild + "(NNNNtR", "wrong arguments"},
      {rebuild + "(" + storage + pickle_int(-1) + "))tR", "wrong arguments"},
      {rebuild + "(" + storage + pickle_int(0) + "NNtR", "shape"},
      {rebuild + "(" + storage + pickle_int(0) + test::pickle_tuple({-2}) + test::pickle_tuple({1}) + "tR", "shape"},
      {rebuild + "(" + storage + pickle_int(0) + test::pickle_tuple({2}) + test::pickle_tuple({2, 1}) + "tR",
       "1 dimensions and 2 strides"},
      {rebuild + "(" + storage + pickle_int(0) + test::pickle_tuple(std::vector<int64_t>(17, 1)) + ")tR", "shape"},
      {pickle_global("torch._utils", "_rebuild_parameter") + "(NtR", "no tensor"},
      {std::string("\x8a\x09xxxxxxxxx"), "9 bytes"},
  };
  for (const auto& [pickle, says] : cases) {
    const auto tree = PickleTree::parse(as_bytes(proto(pickle)), "f.pth");
    ASSERT_FALSE(tree.ok()) << says;
    EXPECT_NE(tree.error().message.find(says), std::string::npos) << tree.error().message << " / " << says;
  }
  expect_error("\x80\x06.", ErrorCode::kUnsupported, "protocol 6");
  expect_error("", ErrorCode::kCorrupt, "cut off");
  expect_error(proto(std::string(500'001, 'N')), ErrorCode::kCorrupt, "more than 500000 values");
  expect_error(proto(std::string(500'001, '(')), ErrorCode::kCorrupt, "more than 500000 values");
  // A long name that each storage would copy.
  expect_error(proto("(" + pickle_text("storage") + pickle_global("torch", "FloatStorage") +
                     pickle_text(std::string(100'000, '0')) + "NK\x01tQ"),
               ErrorCode::kCorrupt, "storage");
  // Depth does not use the stack.
  EXPECT_TRUE(PickleTree::parse(as_bytes(proto("N" + std::string(400'000, '\x85'))), "f").ok());
}

TEST(Pickle, EveryTruncationIsAnError) {
  test::TorchWriter writer;
  const std::string pickle =
      proto(test::TorchWriter::dict({{"a", writer.tensor({{2, 3}, std::string(24, 'x')})}, {"b", "K\x01"}}));
  ASSERT_TRUE(PickleTree::parse(as_bytes(pickle), "f").ok());
  for (size_t size = 0; size < pickle.size(); ++size) {
    EXPECT_FALSE(PickleTree::parse(as_bytes(pickle.substr(0, size)), "f").ok()) << size;
  }
}

}  // namespace pickle_reader_test
}  // namespace tandem

#include "checkpoint/torch/torch_file.h"

#include <algorithm>

#include "base/checked.h"
#include "base/error.h"
#include "base/format.h"
#include "checkpoint/file_kind.h"
#include "checkpoint/hub/safetensors.h"

namespace tandem {
namespace {

struct StorageType {
  std::string_view name;
  uint64_t bytes;
  std::optional<DType> dtype;  // For types that can be weights.
};

constexpr StorageType kStorageTypes[] = {
    {"FloatStorage", 4, DType::kF32}, {"HalfStorage", 2, DType::kF16}, {"BFloat16Storage", 2, DType::kBF16},
    {"DoubleStorage", 8, {}},         {"LongStorage", 8, {}},          {"IntStorage", 4, {}},
    {"ShortStorage", 2, {}},          {"CharStorage", 1, {}},          {"ByteStorage", 1, {}},
    {"BoolStorage", 1, {}},
};

// Whether elements are stored in the order of their indices. The stride of a dimension of one element is irrelevant,
// and so is any stride of an empty tensor.
bool is_contiguous(const PickleValue& tensor) {
  uint64_t expected = 1;
  for (size_t i = tensor.shape.size(); i-- > 0;) {
    if (tensor.shape[i] == 0) return true;
    if (tensor.shape[i] != 1 && static_cast<uint64_t>(tensor.strides[i]) != expected) return false;
    const auto next = checked_mul(expected, static_cast<uint64_t>(tensor.shape[i]));
    if (!next) return false;
    expected = *next;
  }
  return true;
}

Status check_byte_order(const TorchArchive& archive, std::string_view what) {
  const auto it = archive.members.find(archive.prefix + "byteorder");
  if (it == archive.members.end()) return ok_status();  // Before torch 2.1: little endian, except on exotic machines.
  const std::string_view order(reinterpret_cast<const char*>(it->second.data()), it->second.size());
  if (order == "little") return ok_status();
  return unsupported("{}: the numbers in this file are {} endian; only little endian ones can be read", what,
                     printable_name(order));
}

}  // namespace

Result<TorchArchive> TorchArchive::parse(std::span<const uint8_t> file, std::string_view what) {
  if (!looks_like_zip(file)) {
    return wrong_kind(file, what, "a checkpoint that torch.save() wrote");
  }
  TorchArchive archive;
  TANDEM_ASSIGN(archive.members, read_zip(file, what));
  constexpr std::string_view kPickle = "data.pkl";
  const std::span<const uint8_t>* pickle = nullptr;
  for (const auto& [name, bytes] : archive.members) {
    if (name != kPickle && !name.ends_with("/data.pkl")) continue;
    if (pickle != nullptr) return corrupt("{}: this archive has two pickles called data.pkl", what);
    pickle = &bytes;
    archive.prefix = name.substr(0, name.size() - kPickle.size());
  }
  if (pickle == nullptr) {
    return unsupported("{}: this zip archive has no data.pkl, so torch.save() did not write it", what);
  }
  TANDEM_TRY(check_byte_order(archive, what));
  TANDEM_ASSIGN(archive.tree, PickleTree::parse(*pickle, what));
  return archive;
}

Result<TorchTensor> TorchArchive::tensor(const PickleValue& value, std::string_view name, std::string_view what) const {
  const PickleValue& storage = tree.at(value.items[0]);
  const auto type = std::ranges::find(kStorageTypes, storage.storage_type, &StorageType::name);
  if (type == std::end(kStorageTypes) || !type->dtype) {
    return unsupported("{}: tensor \"{}\" is a {}; only float32, float16 and bfloat16 weights can be used", what,
                       printable_name(name), storage.storage_type);
  }
  const auto member = members.find(str_format("{}data/{}", prefix, storage.text));
  if (member == members.end()) {
    return corrupt("{}: the data of tensor \"{}\" (data/{}) are missing", what, printable_name(name),
                   printable_name(storage.text));
  }
  const auto storage_bytes = checked_mul(static_cast<uint64_t>(storage.integer), type->bytes);
  if (!storage_bytes || *storage_bytes > member->second.size()) {
    return corrupt("{}: the data of tensor \"{}\" should have {} elements, but have {} bytes", what,
                   printable_name(name), storage.integer, member->second.size());
  }
  if (!is_contiguous(value)) {
    return unsupported(
        "{}: tensor \"{}\" ([{}]) is a view with strides [{}] into other data; save a copy made with .contiguous()",
        what, printable_name(name), str_join(value.shape, ", "), str_join(value.strides, ", "));
  }
  const auto count = element_count(value.shape);
  if (!count || !range_inside(static_cast<uint64_t>(value.integer), *count, static_cast<uint64_t>(storage.integer))) {
    return corrupt("{}: tensor \"{}\" ([{}] from element {}) extends past its data ({} elements)", what,
                   printable_name(name), str_join(value.shape, ", "), value.integer, storage.integer);
  }
  return TorchTensor{*type->dtype, value.shape,
                     member->second.subspan(static_cast<uint64_t>(value.integer) * type->bytes, *count * type->bytes)};
}

Result<std::map<std::string, TorchTensor>> TorchArchive::tensors(const PickleValue& dict, std::string_view what) const {
  if (dict.kind != PickleValue::Kind::kDict) {
    return unsupported("{}: there should be a dictionary of tensors, but there is {}", what,
                       PickleTree::kind_name(dict.kind));
  }
  std::map<std::string, TorchTensor> found;
  for (size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const PickleValue& key = tree.at(dict.items[i]);
    const PickleValue& value = tree.at(dict.items[i + 1]);
    if (key.kind != PickleValue::Kind::kString) {
      return unsupported("{}: the dictionary of tensors has a key that is {}", what, PickleTree::kind_name(key.kind));
    }
    if (value.kind != PickleValue::Kind::kTensor) {
      return unsupported("{}: \"{}\" should be a tensor, but is {}", what, printable_name(key.text),
                         PickleTree::kind_name(value.kind));
    }
    TANDEM_ASSIGN(TorchTensor view, tensor(value, key.text, what));
    if (!found.emplace(key.text, std::move(view)).second) {
      return corrupt("{}: tensor \"{}\" is there twice", what, printable_name(key.text));
    }
  }
  return found;
}

Result<TorchFile> TorchFile::open(const std::filesystem::path& path) {
  TANDEM_ASSIGN(MappedFile file, MappedFile::open(path));
  TANDEM_ASSIGN(TorchArchive archive, if_unchanged(file, TorchArchive::parse(file.bytes(), path.string())));
  return TorchFile(std::move(file), std::move(archive));
}

}  // namespace tandem

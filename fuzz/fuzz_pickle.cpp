// Any bytes as a zip archive of torch.save(), and any bytes as the pickle in one: an error, or tensors whose bytes lie
// inside the file.
#include <cstdlib>
#include <string>

#include "checkpoint/stored_tensor.h"
#include "checkpoint/torch/torch_file.h"

namespace {

using tandem::PickleValue;

void check_archive(const tandem::TorchArchive& archive, std::span<const uint8_t> file) {
  const auto look = [&](const PickleValue& dict) {
    const auto tensors = archive.tensors(dict, "fuzz");
    if (!tensors.ok()) {
      if (tensors.error().message.empty()) std::abort();
      return;
    }
    for (const auto& [name, tensor] : *tensors) {
      if (tensor.bytes.empty()) continue;
      if (tensor.bytes.data() < file.data() || tensor.bytes.data() + tensor.bytes.size() > file.data() + file.size()) {
        std::abort();
      }
      const tandem::StoredTensor stored{
          .encoding = tandem::encoding_of(tensor.dtype), .shape = tensor.shape, .parts = {tensor.bytes}};
      if (!stored.check().ok()) continue;
      std::vector<float> row(stored.row_size());
      if (!tandem::read_stored_rows(stored, stored.rows() - 1, 1, row).ok()) std::abort();
    }
  };
  look(archive.tree.root());
  if (const PickleValue* model = archive.tree.find(archive.tree.root(), "model")) look(*model);
}

void check_file(std::span<const uint8_t> file) {
  const auto archive = tandem::TorchArchive::parse(file, "fuzz");
  if (archive.ok()) {
    check_archive(*archive, file);
  } else if (archive.error().message.empty()) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const uint8_t> input(data, size);
  check_file(input);
  // The same bytes as the pickle of an archive with some storages: a mutation seldom keeps a zip archive whole.
  auto tree = tandem::PickleTree::parse(input, "fuzz");
  if (!tree.ok()) {
    if (tree.error().message.empty()) std::abort();
    return 0;
  }
  const std::string storage(256, '\x3f');
  const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(storage.data()), storage.size());
  tandem::TorchArchive archive;
  archive.tree = *std::move(tree);
  archive.members = {{"data/0", bytes}, {"data/1", bytes.first(64)}, {"data/2", bytes.first(0)}};
  check_archive(archive, bytes);
  return 0;
}

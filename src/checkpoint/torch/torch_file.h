// Files of torch.save(): a zip archive with a pickle (data.pkl) that describes the tensors and a member for each
// storage. Tensor bytes are used in place. Nothing in the file is executed (pickle_reader.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "archive/zip_reader.h"
#include "base/dtype.h"
#include "base/mapped_file.h"
#include "checkpoint/torch/pickle_reader.h"
#include "tandem/status.h"

namespace tandem {

struct TorchTensor {
  DType dtype = DType::kF32;  // f32, f16 or bf16.
  std::vector<int64_t> shape;
  std::span<const uint8_t> bytes;
};

// The parts of the archive, independent of where its bytes come from.
struct TorchArchive {
  PickleTree tree;
  ZipMembers members;
  std::string prefix;  // The members' folder: "consolidated/".

  static Result<TorchArchive> parse(std::span<const uint8_t> file, std::string_view what);

  // A contiguous float tensor; others are refused by name. `what` names the file.
  Result<TorchTensor> tensor(const PickleValue& value, std::string_view name, std::string_view what) const;
  // All tensors of a dictionary, by name. Values other than tensors are refused.
  Result<std::map<std::string, TorchTensor>> tensors(const PickleValue& dict, std::string_view what) const;
};

class TorchFile {
 public:
  static Result<TorchFile> open(const std::filesystem::path& path);

  const TorchArchive& archive() const { return archive_; }
  const MappedFile& file() const { return file_; }
  std::string name() const { return file_.path().string(); }
  MappedFile take_file() && { return std::move(file_); }

 private:
  TorchFile(MappedFile file, TorchArchive archive) : file_(std::move(file)), archive_(std::move(archive)) {}

  MappedFile file_;
  TorchArchive archive_;
};

}  // namespace tandem

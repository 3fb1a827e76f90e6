#include "deploy/file_content.h"

#include "deploy/sha256.h"

namespace tandem {

Result<FileContent> FileContent::map(const std::filesystem::path& path) {
  TANDEM_ASSIGN(MappedFile file, MappedFile::open(path));
  FileContent content;
  content.file_ = std::make_shared<const MappedFile>(std::move(file));
  return content;
}

FileContent FileContent::own(std::vector<uint8_t> bytes) {
  FileContent content;
  content.owned_ = std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
  return content;
}

std::span<const uint8_t> FileContent::bytes() const {
  if (file_ != nullptr) return file_->bytes();
  return owned_ != nullptr ? std::span<const uint8_t>(*owned_) : std::span<const uint8_t>();
}

Status FileContent::check() const { return file_ != nullptr ? file_->check() : ok_status(); }

std::filesystem::path FileContent::path() const { return file_ != nullptr ? file_->path() : std::filesystem::path(); }

Result<std::string> sha256_of(const FileContent& content, const StopCallback& stop) {
  Sha256 sum;
  TANDEM_TRY(content.in_chunks(stop, [&](std::span<const uint8_t> chunk) {
    sum.update(chunk);
    return ok_status();
  }));
  return sum.finish();
}

}  // namespace tandem

#include "artifact/reader.h"

#include <algorithm>
#include <cstring>

#include "artifact/header_codec.h"
#include "artifact/preamble.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/output_path.h"

namespace tandem {
namespace {

Result<Preamble> read_preamble(std::span<const uint8_t> file) {
  Preamble preamble;
  if (file.size() < sizeof(Preamble)) return corrupt("{} bytes is too short for a tandem file", file.size());
  std::memcpy(&preamble, file.data(), sizeof(Preamble));
  if (preamble.magic != kMagic) return corrupt("this is not a tandem file; make one with `tandem compile`");
  if (preamble.preamble_hash != hash_bytes(file.first(sizeof(Preamble) - sizeof(uint64_t)))) {
    return corrupt("the first 64 bytes are damaged; copy the file again or compile it anew");
  }
  if (preamble.version == 0 || preamble.version > kArtifactVersion) {
    return unsupported("the file has format version {}, and this tandem reads up to {}; use a newer tandem",
                       preamble.version, kArtifactVersion);
  }
  if (preamble.file_size != file.size()) {
    return corrupt("the file should have {} bytes and has {}; copy it again", preamble.file_size, file.size());
  }
  if (!range_inside(preamble.header_offset, preamble.header_size, file.size()) ||
      preamble.header_offset < sizeof(Preamble) || preamble.header_offset % 64 != 0) {
    return corrupt("the header lies outside the file");
  }
  return preamble;
}

Result<ArtifactHeader> read_header(const MappedFile& file) {
  TANDEM_ASSIGN(const Preamble preamble, read_preamble(file.bytes()));
  // A copy: checked bytes must not change before they are used.
  const auto mapped = file.bytes().subspan(preamble.header_offset, preamble.header_size);
  const std::vector<uint8_t> header_bytes(mapped.begin(), mapped.end());
  if (hash_bytes(header_bytes) != preamble.header_hash) {
    return corrupt("the header is damaged; copy the file again or compile it anew");
  }
  return decode_header(header_bytes, preamble.header_offset);
}

}  // namespace

Result<Artifact> Artifact::open(const std::filesystem::path& path) {
  const std::string name = path.string();
  if (std::error_code ignored; std::filesystem::is_directory(path, ignored)) {
    return invalid_argument("{} is a folder and not a compiled file; make one with `tandem compile {} -o FILE.tdm`",
                            name, name);
  }
  TANDEM_ASSIGN(MappedFile file, MappedFile::open(path));
  return read(std::move(file));
}

Result<Artifact> Artifact::open(const FileRegion& region) {
  TANDEM_ASSIGN(MappedFile file, MappedFile::open(region));
  return read(std::move(file));
}

Result<Artifact> Artifact::read(MappedFile file) {
  auto header = read_header(file);
  TANDEM_TRY(file.check());  // A better error than whatever half-written bytes would give.
  if (!header.ok()) return with_context(std::move(header).error(), "{}", file.path().string());
  return Artifact(std::make_shared<const MappedFile>(std::move(file)), std::move(header).value());
}

Artifact::Artifact(std::shared_ptr<const MappedFile> file, ArtifactHeader header)
    : file_(std::move(file)), header_(std::move(header)) {
  for (size_t i = 0; i < header_.weights.size(); ++i) weights_.emplace(header_.weights[i].name, i);
  for (size_t i = 0; i < header_.vectors.size(); ++i) vectors_.emplace(header_.vectors[i].name, i);
}

Artifact Artifact::program(size_t index) const {
  ProgramHeader program = index == 0 ? first_program(header_) : header_.more_programs[index - 1];
  return {file_, with_program(header_, std::move(program))};
}

std::span<const uint8_t> Artifact::segment_bytes(size_t segment) const {
  const Segment& s = header_.segments[segment];
  return file_->bytes().subspan(s.offset, s.size);
}

std::span<const uint8_t> Artifact::bytes(const Range& range) const {
  if (range.size == 0) return {};
  return segment_bytes(range.segment).subspan(range.offset, range.size);
}

const WeightEntry* Artifact::find_weight(std::string_view name) const {
  const auto it = weights_.find(std::string(name));
  return it == weights_.end() ? nullptr : &header_.weights[it->second];
}

const VectorEntry* Artifact::find_vector(std::string_view name) const {
  const auto it = vectors_.find(std::string(name));
  return it == vectors_.end() ? nullptr : &header_.vectors[it->second];
}

const ir::Graph* Artifact::find_method(std::string_view name) const {
  const auto it = std::ranges::find(header_.methods, name, &ir::Graph::name);
  return it == header_.methods.end() ? nullptr : &*it;
}

Status Artifact::verify_segment(size_t segment) const {
  TANDEM_TRY(check());
  const uint64_t hash = hash_bytes(segment_bytes(segment));
  TANDEM_TRY(check());
  if (hash != header_.segments[segment].hash) {
    return corrupt("{}: segment \"{}\" is damaged; copy the file again or compile it anew", path().string(),
                   header_.segments[segment].name);
  }
  return ok_status();
}

bool looks_like_artifact(const std::filesystem::path& path) {
  return file_starts_with(path, {kMagic.data(), kMagic.size()});
}

}  // namespace tandem

// A mapped artifact. Opening it reads and checks only the header; weights are read when they are used.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "artifact/header.h"
#include "base/hash.h"
#include "base/mapped_file.h"
#include "tandem/status.h"

namespace tandem {

class Artifact {
 public:
  // Checks magic, version, size, the header's checksum, all offsets, and every method's graph. The weights' checksums
  // are not verified: that would read the whole file (see verify_segment).
  static Result<Artifact> open(const std::filesystem::path& path);
  static Result<Artifact> open(const FileRegion& region);

  const ArtifactHeader& header() const { return header_; }
  // A file for several targets has several programs, in the order in which they are tried. header() and what it finds
  // are those of one of them: after opening the first.
  size_t program_count() const { return 1 + header_.more_programs.size(); }
  // The file as if it had only that program. It shares the mapping.
  Artifact program(size_t index) const;
  // Makes an activation of a method one of its outputs, for back ends that are given this artifact.
  void make_output(size_t method, ir::TensorId tensor) {
    header_.methods[method].at(tensor).role = ir::TensorRole::kOutput;
  }

  const std::filesystem::path& path() const { return file_->path(); }
  uint64_t file_size() const { return file_->bytes().size(); }
  // Whether the bytes are in memory of our own; see MappedFile::open.
  bool is_copy() const { return file_->is_copy(); }

  // A range of a checked header is always inside the file.
  std::span<const uint8_t> bytes(const Range& range) const;
  std::span<const uint8_t> segment_bytes(size_t segment) const;

  const WeightEntry* find_weight(std::string_view name) const;
  const VectorEntry* find_vector(std::string_view name) const;
  const ir::Graph* find_method(std::string_view name) const;

  // Whether the file is still what was opened; see MappedFile::check.
  Status check() const { return file_->check(); }

  // Reads the segment and verifies its checksum.
  Status verify_segment(size_t segment) const;
  // Lets go of the segment's pages; see MappedFile::release.
  void release_segment(size_t segment) const { file_->release(segment_bytes(segment)); }

 private:
  Artifact(std::shared_ptr<const MappedFile> file, ArtifactHeader header);
  static Result<Artifact> read(MappedFile file);

  std::shared_ptr<const MappedFile> file_;
  ArtifactHeader header_;
  // By name, the index in the header.
  std::unordered_map<std::string, size_t> weights_;
  std::unordered_map<std::string, size_t> vectors_;
};

// True if the file begins like an artifact; used to tell artifacts from other files that a user may name.
bool looks_like_artifact(const std::filesystem::path& path);

}  // namespace tandem

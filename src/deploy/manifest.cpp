#include "deploy/manifest.h"

#include <algorithm>

#include "base/error.h"

namespace tandem {
namespace {

constexpr const char* kMadeBy = "tandem deploy";
constexpr int kManifestVersion = 1;
constexpr size_t kMaxFiles = 10'000;
constexpr size_t kLongestFileName = 255;

Result<ManifestFile> parse_file(const Json& json) {
  ManifestFile file;
  TANDEM_ASSIGN(const auto name, json_string(json, "name"));
  TANDEM_ASSIGN(const auto size, json_int(json, "size"));
  TANDEM_ASSIGN(const auto sha256, json_string(json, "sha256"));
  const bool has_sum =
      sha256 && sha256->size() == 64 && sha256->find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!name || !is_plain_name(*name) || !size || *size < 0 || !has_sum) {
    return corrupt("a file in it has no proper name, size or sha256");
  }
  file.name = *name;
  file.size = static_cast<uint64_t>(*size);
  file.sha256 = *sha256;
  return file;
}

Result<Manifest> parse_manifest(const Json& json) {
  if (!json.is_object()) return corrupt("it is not an object");
  TANDEM_ASSIGN(const auto made_by, json_string(json, "made_by"));
  TANDEM_ASSIGN(const auto version, json_int(json, "version"));
  if (made_by != kMadeBy) return corrupt("`tandem deploy` did not write it");
  if (version != kManifestVersion) return unsupported("another version of tandem wrote it");
  Manifest manifest;
  TANDEM_ASSIGN(const auto complete, json_bool(json, "complete"));
  manifest.complete = complete.value_or(false);
  const auto files = json.find("files");
  if (files == json.end() || !files->is_array() || files->size() > kMaxFiles) return corrupt("it has no list of files");
  for (const Json& item : *files) {
    if (!item.is_object()) return corrupt("a file in it is not an object");
    TANDEM_ASSIGN(ManifestFile file, parse_file(item));
    manifest.files.push_back(std::move(file));
  }
  return manifest;
}

}  // namespace

bool is_plain_name(std::string_view name) {
  const auto is_odd = [](char c) { return c == '/' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  return !name.empty() && name.size() <= kLongestFileName && name != "." && name != ".." && name != kManifestName &&
         std::ranges::none_of(name, is_odd);
}

std::vector<const ManifestFile*> Manifest::find(std::string_view name) const {
  std::vector<const ManifestFile*> found;
  for (const ManifestFile& file : files) {
    if (file.name == name) found.push_back(&file);
  }
  return found;
}

Json Manifest::to_json() const {
  Json list = Json::array();
  for (const ManifestFile& file : files) {
    Json item = {{"name", file.name}, {"size", file.size}, {"sha256", file.sha256}, {"kind", file.kind}};
    if (!file.processor.empty()) item["processor"] = file.processor;
    list.push_back(std::move(item));
  }
  Json variables = Json::object();
  for (const auto& [name, value] : environment) variables[name] = value;
  Json json = {{"made_by", kMadeBy},
               {"version", kManifestVersion},
               {"complete", complete},
               {"model", model},
               {"target", target},
               {"backend", backend},
               {"library", nullptr},
               {"folder", folder},
               {"environment", variables},
               {"command", command.empty() ? Json() : Json(command)},
               {"files", list},
               {"warnings", warnings}};
  if (!library_found.empty() || !library_needed.empty()) {
    json["library"] = {{"version", library_found}, {"needed", library_needed}};
  }
  return json;
}

std::string Manifest::to_text() const { return dump_json(to_json(), 2) + "\n"; }

Result<Manifest> Manifest::parse(std::string_view text, std::string_view what) {
  TANDEM_ASSIGN(const Json json, parse_json(text, what));
  auto manifest = parse_manifest(json);
  if (!manifest.ok()) return with_context(std::move(manifest).error(), "{}", what);
  return manifest;
}

}  // namespace tandem

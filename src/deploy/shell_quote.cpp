#include "deploy/shell_quote.h"

#include <algorithm>

#include "base/format.h"

namespace tandem {

std::string shell_quote(std::string_view text) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-./:,+@%").find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::ranges::all_of(text, is_plain)) return std::string(text);
  // Nothing has a meaning between single quotes; a single quote itself is put between double ones.
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\"'\"'";
    } else {
      out += c;
    }
  }
  return out + "'";
}

std::string in_folder(std::string_view folder) { return str_format("cd {} && ", shell_quote(folder)); }

std::string device_command(const Manifest& manifest, const std::vector<std::string>& arguments) {
  std::string command = in_folder(manifest.folder);
  for (const auto& [name, value] : manifest.environment) append_format(command, "{}={} ", name, shell_quote(value));
  std::vector<std::string> words;
  for (const std::string& argument : arguments) words.push_back(shell_quote(argument));
  return command + str_join(words, " ");
}

}  // namespace tandem

// Commands for the shell of a device. `adb shell` passes one text to it, so quoting is ours.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "deploy/manifest.h"

namespace tandem {

// One word of a POSIX shell that stands for exactly this text, whatever is in it. NUL cannot be in one.
std::string shell_quote(std::string_view text);

// "cd FOLDER && ", for commands that name files as ./NAME.
std::string in_folder(std::string_view folder);

// "cd FOLDER && NAME=VALUE … PROGRAM ARGUMENTS", in the manifest's folder and with its environment.
std::string device_command(const Manifest& manifest, const std::vector<std::string>& arguments);

}  // namespace tandem

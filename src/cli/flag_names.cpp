#include "cli/flag_names.h"

#include "backends/registry/registry.h"
#include "cli/program.h"

namespace tandem {
namespace {

struct FlagName {
  std::string_view field;
  std::string_view flag;
};

// Fields of include/tandem/engine.h and compile.h, and those that src/eval and src/deploy need. Flags of back ends'
// options have the options' names. tests/cli/test_flag_names.py looks for fields that are missing here, and for flags
// that no command has.
constexpr FlagName kFlagNames[] = {
    {"activations", "--activations"},
    {"adb", "--adb"},
    {"bits", "--bits"},
    {"calibration.export_encodings", "--export-encodings"},
    {"calibration.file", "--calib"},
    {"calibration.import_encodings", "--encodings"},
    {"calibration.length", "--calib-length"},
    {"calibration.prompt", "--calib-prompt"},
    {"calibration.range", "--calib-range"},
    {"calibration.report", "--report"},
    {"calibration.samples", "--calib-samples"},
    {"calibration.task", "--calib-task"},
    {"checkpoint", "--checkpoint"},
    {"context", "--context"},
    {"conversations", "--conversations"},
    {"decode_on", "--decode-on"},
    {"decode_only", "--mode kv"},
    {"force", "--force"},
    {"generate()", "--no-template"},
    {"head", "--head"},
    {"ids", "--ids"},
    {"kv", "--kv"},
    {"phases", "--phases"},
    {"prefill", "--prefill"},
    {"prompt", "--prompt"},
    {"recipe", "--recipe"},
    {"remote_dir", "--remote-dir"},
    {"rescore", "--rescore"},
    {"run_on", "--on"},
    {"runtime", "--runtime"},
    {"target", "--target"},
    {"text", "--text"},
    {"threads", "--threads"},
    {"to", "--to"},
    {"tune", "--tune"},
    {"window", "--window"},
};

bool is_backend_flag(std::string_view name) {
  const auto has_flag = [&](const OptionSpec* spec) { return spec != nullptr && spec->has_flag; };
  for (const Backend* backend : backends()) {
    if (has_flag(find_option(backend->options(), name))) return true;
  }
  return is_compile_flag(name);
}

// "" if there is none.
std::string flag_of(std::string_view field) {
  for (const FlagName& name : kFlagNames) {
    if (name.field == field) return std::string(name.flag);
  }
  return is_backend_flag(field) ? "--" + std::string(field) : std::string();
}

}  // namespace

std::string with_flags(std::string_view message) {
  std::string text;
  while (!message.empty()) {
    const size_t open = message.find('`');
    const size_t close = open == std::string_view::npos ? open : message.find('`', open + 1);
    if (close == std::string_view::npos) break;
    const std::string flag = flag_of(message.substr(open + 1, close - open - 1));
    text += message.substr(0, open);
    text += flag.empty() ? message.substr(open, close + 1 - open) : std::string_view(flag);
    message.remove_prefix(close + 1);
  }
  return text += message;
}

}  // namespace tandem

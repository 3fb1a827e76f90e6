#include "cli/flag_names.h"

namespace tandem {
namespace {

struct FlagName {
  std::string_view field;
  std::string_view flag;
};

// Fields of include/tandem/engine.h and compile.h, options of back ends, and what src/eval asks for.
// tests/cli/test_flag_names.py looks for fields that are missing here, and for flags that no command has.
constexpr FlagName kFlagNames[] = {
    {"activations", "--activations"},
    {"attention", "--attention"},
    {"calibration.export_encodings", "--export-encodings"},
    {"calibration.file", "--calib"},
    {"calibration.import_encodings", "--encodings"},
    {"calibration.length", "--calib-length"},
    {"calibration.prompt", "--calib-prompt"},
    {"calibration.range", "--calib-range"},
    {"calibration.report", "--report"},
    {"calibration.samples", "--calib-samples"},
    {"checkpoint", "--checkpoint"},
    {"context", "--context"},
    {"conversations", "--conversations"},
    {"decode_only", "--mode kv"},
    {"emulator", "--emulator"},
    {"estimate", "--estimate"},
    {"estimate-json", "--estimate-json"},
    {"force", "--force"},
    {"generate()", "--no-template"},
    {"head", "--head"},
    {"ids", "--ids"},
    {"jobs", "--jobs"},
    {"kv", "--kv"},
    {"memory", "--memory"},
    {"phases", "--phases"},
    {"prefill", "--prefill"},
    {"prompt", "--prompt"},
    {"recipe", "--recipe"},
    {"rescore", "--rescore"},
    {"shards", "--shards"},
    {"target", "--target"},
    {"text", "--text"},
    {"threads", "--threads"},
    {"trace", "--trace"},
    {"tune-cache", "--tune-cache"},
    {"tune-graphs", "--tune-graphs"},
    {"unshared", "--unshared"},
    {"window", "--window"},
};

std::string_view flag_of(std::string_view field) {
  for (const FlagName& name : kFlagNames) {
    if (name.field == field) return name.flag;
  }
  return {};
}

}  // namespace

std::string with_flags(std::string_view message) {
  std::string text;
  while (!message.empty()) {
    const size_t open = message.find('`');
    const size_t close = open == std::string_view::npos ? open : message.find('`', open + 1);
    if (close == std::string_view::npos) break;
    const std::string_view flag = flag_of(message.substr(open + 1, close - open - 1));
    text += message.substr(0, open);
    text += flag.empty() ? message.substr(open, close + 1 - open) : flag;
    message.remove_prefix(close + 1);
  }
  return text += message;
}

}  // namespace tandem

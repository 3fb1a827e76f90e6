// tandem logits: the logits of every position, for comparing with other implementations.
#include <CLI/CLI.hpp>
#include <bit>
#include <memory>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/format.h"
#include "base/output_path.h"
#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "cli/interrupt.h"
#include "cli/validators.h"
#include "eval/tested_model.h"

namespace tandem {
namespace logits_command {

struct Options {
  std::string model;
  std::vector<std::string> tokens;
  std::string out;
  std::string phase;
  std::string recipe;
  std::string config = "config.json";
  EngineFlags engine;
  std::string checkpoint;
};

constexpr std::string_view kNpyMagic = "\x93NUMPY";

// NumPy's .npy, version 1.0: a text header padded to 64 bytes, then the numbers, little-endian.
std::string npy_header(size_t rows, size_t cols) {
  static_assert(std::endian::native == std::endian::little);
  std::string text = str_format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, cols);
  const size_t unpadded = 10 + text.size() + 1;
  text.append((64 - unpadded % 64) % 64, ' ');
  text += '\n';
  std::string header(kNpyMagic);
  header += '\x01';
  header += '\0';
  header += static_cast<char>(text.size() & 0xff);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

bool is_npy(const std::filesystem::path& path) { return file_starts_with(path, kNpyMagic); }

void check_out(const Options& o) {
  const std::vector<std::filesystem::path> inputs = {o.model, o.checkpoint, o.recipe};
  ok_or_fail(check_output_path(o.out, {.inputs = inputs, .may_replace = is_npy, .kind = "a NumPy file"}));
}

void run(const Options& o) {
  const std::vector<int64_t> numbers = parse_number_list(o.tokens);
  const std::vector<int32_t> tokens(numbers.begin(), numbers.end());
  check_out(o);
  TestedModelOptions options;
  if (!o.phase.empty()) options.phase = value_or_fail(parse_phase(o.phase));
  if (!o.recipe.empty()) options.recipe = value_or_fail(Recipe::load(o.recipe));
  options.engine = o.engine.options();
  options.checkpoint = o.checkpoint;
  options.config_name = o.config;
  options.context = static_cast<int64_t>(tokens.size());
  options.stop = &interrupt_flag();
  watch_interrupts();
  const auto model = value_or_fail(TestedModel::open(o.model, options));
  AtomicFile file = value_or_fail(AtomicFile::create(o.out));
  ok_or_fail(file.write(npy_header(tokens.size(), static_cast<size_t>(model->vocab_size()))));
  ok_or_fail(model->score(tokens, [&](size_t, std::span<const float> logits) -> Status {
    if (interrupted()) return cancelled("stopped; nothing was written");
    return file.write({reinterpret_cast<const uint8_t*>(logits.data()), logits.size_bytes()});
  }));
  ok_or_fail(file.commit());
}

}  // namespace logits_command

void add_logits_command(CLI::App& app) {
  using namespace logits_command;
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("logits", "Write the scores of every position to a NumPy file");
  command->footer(
      "Example:\n  tandem logits models/demo --tokens 1,404,1055 --out logits.npy\n"
      "The file is float32 [tokens, vocabulary].");
  command->add_option("MODEL", o->model, "A checkpoint's folder (run by the reference) or a compiled file")->required();
  command->add_option("--tokens", o->tokens, "Token ids, separated by commas")
      ->check(number_list(0))
      ->type_name("N,N")
      ->take_all()
      ->allow_extra_args(false)
      ->required();
  command->add_option("--out", o->out, "The .npy file to write")->required();
  command
      ->add_option("--phase", o->phase,
                   "float, qdq (fake-quantized) or device; default: float for a folder, device for a file")
      ->check(accepted_by(parse_phase));
  command->add_option("--recipe", o->recipe, "For the phase qdq of a folder; default: w4");
  command->add_option("--config", o->config, "Name of the configuration in the folder")->capture_default_str();
  command->add_option("--checkpoint", o->checkpoint,
                      "For the phases float and qdq of a file for an NPU: the folder that it was compiled from");
  o->engine.add_to(*command);
  command->callback([o] { run(*o); });
}

}  // namespace tandem

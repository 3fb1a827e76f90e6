// tandem-make-checkpoint: makes a checkpoint of a given shape with random weights, for tests and measurements of speed
// and memory. Its output is gibberish.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>

#include "base/format.h"
#include "random_checkpoint.h"

namespace {

using namespace tandem;
using namespace tandem::tools;

std::atomic<bool> cancel{false};

extern "C" void on_interrupt(int) { cancel.store(true); }

struct Overrides {
  std::optional<std::string> family;
  std::optional<int64_t> hidden, layers, heads, kv_heads, head_dim, ffn, vocab, context;
  std::optional<double> rope_theta;
  bool tied = false;
  bool untied = false;
};

void apply(const Overrides& from, Shape& shape) {
  const auto set = [](const auto& value, auto& target) {
    if (value) target = *value;
  };
  set(from.family, shape.family);
  set(from.hidden, shape.hidden);
  set(from.layers, shape.layers);
  set(from.heads, shape.heads);
  set(from.kv_heads, shape.kv_heads);
  set(from.head_dim, shape.head_dim);
  set(from.ffn, shape.ffn);
  set(from.vocab, shape.vocab);
  set(from.context, shape.context);
  set(from.rope_theta, shape.rope_theta);
  if (from.family && *from.family != "llama") shape.llama3_rope = false;
  if (from.tied) shape.tied = true;
  if (from.untied) shape.tied = false;
}

// What the command line says.
struct Arguments {
  std::string folder;
  std::string shape = "tiny";
  std::string dtype = "bf16";
  std::string tokenizer;
  bool quiet = false;
  Overrides overrides;
  RandomCheckpointOptions options;
};

void add_options(CLI::App& app, Arguments& arguments) {
  Overrides& overrides = arguments.overrides;
  RandomCheckpointOptions& options = arguments.options;
  std::vector<std::string> names;
  for (const NamedShape& known : known_shapes()) names.emplace_back(known.name);
  app.add_option("folder", arguments.folder, "Where to write; created if missing")->required();
  app.add_option("--shape", arguments.shape, "A known shape to start from")
      ->check(CLI::IsMember(names))
      ->capture_default_str();
  app.add_option("--family", overrides.family, "llama, qwen2 or qwen3")
      ->check(CLI::IsMember({"llama", "qwen2", "qwen3"}));
  app.add_option("--hidden", overrides.hidden, "Width of the residual stream");
  app.add_option("--layers", overrides.layers, "Number of layers");
  app.add_option("--heads", overrides.heads, "Query heads");
  app.add_option("--kv-heads", overrides.kv_heads, "Key and value heads");
  app.add_option("--head-dim", overrides.head_dim, "Size of an attention head");
  app.add_option("--ffn", overrides.ffn, "Width of the feed-forward part");
  app.add_option("--vocab", overrides.vocab, "Number of tokens");
  app.add_option("--context", overrides.context, "Positions that the model supports");
  app.add_option("--rope-theta", overrides.rope_theta, "Base of the rotary frequencies")->check(CLI::PositiveNumber);
  auto* tied = app.add_flag("--tied", overrides.tied, "The LM head is the embedding");
  app.add_flag("--untied", overrides.untied, "The LM head has weights of its own")->excludes(tied);
  app.add_option("--dtype", arguments.dtype, "Type of the weights")
      ->check(CLI::IsMember({"f32", "f16", "bf16"}))
      ->capture_default_str();
  app.add_option("--shard-size", options.shard_size, "Split the weights into files of at most this size (500MB, 5GB)")
      ->transform(CLI::AsSizeValue(true))
      ->default_str("5GB");
  app.add_option("--seed", options.seed, "The same seed gives the same files")->capture_default_str();
  app.add_option("--tokenizer", arguments.tokenizer, "A tokenizer.json to copy; otherwise one token per byte")
      ->check(CLI::ExistingFile);
  app.add_option("--threads", options.threads, "0: one per core")->check(CLI::Range(0, 1024))->capture_default_str();
  app.add_flag("--force", options.overwrite, "Replace an existing checkpoint");
  app.add_flag("-q,--quiet", arguments.quiet, "Print errors only");
}

int write(const Arguments& arguments) {
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
  const bool show_progress = !arguments.quiet && ::isatty(STDERR_FILENO) != 0;
  const auto start = std::chrono::steady_clock::now();
  const auto progress = [&](uint64_t done, uint64_t total) {
    if (show_progress) {
      std::fputs(str_format("\r{:3} %  {:.1f} of {:.1f} GB", done * 100 / total, static_cast<double>(done) / 1e9,
                            static_cast<double>(total) / 1e9)
                     .c_str(),
                 stderr);
    }
  };
  const auto result = write_random_checkpoint(arguments.folder, arguments.options, progress, cancel);
  if (show_progress) std::fputs(str_format("\r\033[K").c_str(), stderr);
  if (!result.ok()) {
    std::fputs(str_format("tandem-make-checkpoint: {}\n", result.error().message).c_str(), stderr);
    return 1;
  }
  if (!arguments.quiet) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::fputs(str_format("{}: {:.1f} million parameters, {:.1f} MB of {} in {} file{}, {:.1f} s\n", arguments.folder,
                          static_cast<double>(result->parameters) / 1e6, static_cast<double>(result->bytes) / 1e6,
                          arguments.dtype, result->files, result->files == 1 ? "" : "s", seconds)
                   .c_str(),
               stdout);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Writes a checkpoint of a given shape with random weights, as a model hub would have it.\n\n"
      "Example:\n  tandem-make-checkpoint /tmp/qwen3-1.7b --shape qwen3-1.7b --dtype bf16\n"
      "  tandem-make-checkpoint /tmp/small --shape tiny --layers 4 --untied --shard-size 100KB"};
  Arguments arguments;
  add_options(app, arguments);
  CLI11_PARSE(app, argc, argv);
  RandomCheckpointOptions& options = arguments.options;
  for (const NamedShape& known : known_shapes()) {
    if (known.name == arguments.shape) options.shape = known.shape;
  }
  apply(arguments.overrides, options.shape);
  options.dtype = *dtype_from_name(arguments.dtype);
  options.tokenizer = arguments.tokenizer;
  return write(arguments);
}

// tandem bench: how fast a file runs here.

#include <CLI/CLI.hpp>
#include <memory>

#include "base/format.h"
#include "base/json.h"
#include "bench/benchmark.h"
#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "cli/progress_bar.h"
#include "cli/validators.h"

namespace tandem {
namespace bench_command {

struct Options {
  std::string file;
  BenchmarkOptions benchmark;
  EngineFlags engine;
  bool json = false;
};

void report_json(const BenchmarkReport& r) {
  Json json = {{"mode", r.mode},
               {"isa", r.isa},
               {"threads", r.threads},
               {"prompt_tokens", r.prompt_tokens},
               {"new_tokens", r.new_tokens},
               {"load_seconds", r.load_seconds},
               {"first_token_seconds", r.first_token_seconds},
               {"prompt_tokens_per_second", r.prompt_tokens_per_second},
               {"decode_tokens_per_second", r.decode_tokens_per_second},
               {"bytes_per_token", r.bytes_per_token},
               {"read_bytes_per_second", r.read_bytes_per_second},
               {"bandwidth_share", r.bandwidth_share},
               {"prompt_operations", r.prompt_operations},
               {"prompt_bytes", r.prompt_bytes},
               {"decode_operations", r.decode_operations},
               {"int8_operations_per_second", r.int8_operations_per_second},
               {"int8_share", r.int8_share},
               {"peak_memory_bytes", r.peak_memory_bytes},
               {"file_bytes", r.file_bytes}};
  if (r.kv_first_token_seconds > 0.0) {
    json["kv_first_token_seconds"] = r.kv_first_token_seconds;
    json["first_token_ratio"] = r.kv_first_token_seconds / r.first_token_seconds;
  }
  show_json(json);
}

void report_text(const BenchmarkReport& r) {
  show("{} threads, {} kernels, mode {}", r.threads, r.isa, r.mode);
  show("load               {:>10}", format_seconds(r.load_seconds));
  show("first token        {:>10}  after a prompt of {} tokens ({:.0f} tokens/s)",
       str_format("{:.1f} ms", r.first_token_seconds * 1e3), r.prompt_tokens, r.prompt_tokens_per_second);
  show("  computes         {:>10}  GOPS{}", str_format("{:.0f}", r.prompt_operations / r.first_token_seconds / 1e9),
       r.int8_operations_per_second > 0.0 ? str_format(": {:.0f} % of the {:.0f} GOPS that int8 reaches here",
                                                       100.0 * r.int8_share, r.int8_operations_per_second / 1e9)
                                          : "");
  if (r.kv_first_token_seconds > 0.0) {
    show("  one by one       {:>10}  the same prompt without prefill: {:.1f} times as long",
         str_format("{:.1f} ms", r.kv_first_token_seconds * 1e3), r.kv_first_token_seconds / r.first_token_seconds);
  }
  show("decode             {:>10}  tokens/s", str_format("{:.1f}", r.decode_tokens_per_second));
  if (r.bytes_per_token > 0) {
    show("  reads            {:>10}  a token, at {:.1f} GB/s: {:.0f} % of the {:.1f} GB/s measured here",
         format_bytes(r.bytes_per_token), static_cast<double>(r.bytes_per_token) * r.decode_tokens_per_second / 1e9,
         100.0 * r.bandwidth_share, r.read_bytes_per_second / 1e9);
  }
  show("peak memory        {:>10}  (the file has {})", format_bytes(r.peak_memory_bytes), format_bytes(r.file_bytes));
}

void run(const Options& o) {
  ProgressBar bar(o.json);
  BenchmarkOptions options = o.benchmark;
  options.engine = o.engine.options();
  const auto report = run_benchmark(o.file, options, [&](const Progress& p) { bar.update(p); });
  bar.finish();
  if (!report.ok()) fail(report.error());
  o.json ? report_json(*report) : report_text(*report);
}

}  // namespace bench_command

void add_bench_command(CLI::App& app) {
  using namespace bench_command;
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("bench", "Measure how fast a file runs here");
  command->footer("Example:\n  tandem bench demo.tdm --prompt 256 --tokens 128");
  command->add_option("FILE", o->file, "A compiled file")->required();
  command->add_option("--prompt", o->benchmark.prompt_tokens, "Tokens of the prompt")
      ->check(whole_number(1))
      ->capture_default_str();
  command->add_option("--tokens", o->benchmark.new_tokens, "Tokens to decode")
      ->check(whole_number(1))
      ->capture_default_str();
  command->add_option("--repeats", o->benchmark.repeats, "The best of so many runs counts")
      ->check(whole_number(1, 1000))
      ->capture_default_str();
  command->add_flag("!--no-one-by-one", o->benchmark.one_by_one, "Do not measure the prompt without prefill");
  o->engine.add_to(*command);
  command->add_flag("--json", o->json, "As JSON");
  command->callback([o] { run(*o); });
}

}  // namespace tandem

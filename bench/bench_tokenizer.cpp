// Encodes a file once, on one thread, and prints the time and the ids as JSON; bench/tokenizer.py runs it.

#include <chrono>
#include <cstdio>

#include "base/format.h"
#include "base/mapped_file.h"
#include "tokenizer/import/tokenizer_files.h"
#include "tokenizer/tokenizer.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs(tandem::str_format("usage: bench_tokenizer tokenizer.json TEXT\n").c_str(), stderr);
    return 2;
  }
  const auto compiled = tandem::tokenizer_from_file(argv[1]);
  const auto text = tandem::read_text_file(argv[2], 1u << 30);
  if (!compiled.ok() || !text.ok()) {
    std::fputs(tandem::str_format("{}\n", compiled.ok() ? text.error().message : compiled.error().message).c_str(),
               stderr);
    return 1;
  }
  // As at run time: from the compiled form, on its first text.
  const std::vector<uint8_t> blob = tandem::serialize_tokenizer(*compiled);
  const auto load_start = std::chrono::steady_clock::now();
  const auto tokenizer = tandem::Tokenizer::from_blob(blob);
  const auto start = std::chrono::steady_clock::now();
  const auto ids = tokenizer->encode(*text, false);
  const auto end = std::chrono::steady_clock::now();
  if (!ids.ok()) {
    std::fputs(tandem::str_format("{}\n", ids.error().message).c_str(), stderr);
    return 1;
  }
  const auto seconds = [](auto duration) { return std::chrono::duration<double>(duration).count(); };
  std::fputs(tandem::str_format("{{\"load_seconds\":{},\"seconds\":{},\"ids\":[{}]}}\n", seconds(start - load_start),
                                seconds(end - start), tandem::str_join(*ids, ","))
                 .c_str(),
             stdout);
  return 0;
}

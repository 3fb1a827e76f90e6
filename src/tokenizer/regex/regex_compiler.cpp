#include "tokenizer/regex/regex_compiler.h"

#include "base/error.h"
#include "tokenizer/regex/regex_tree.h"
#include "tokenizer/regex_format.h"

namespace tandem {
namespace {

class RegexEncoder {
 public:
  explicit RegexEncoder(const RegexProgram& program) : program_(program) {}

  std::string run() {
    const RegexProgram& p = program_;
    for (const size_t count :
         {size_t{kRegexFormat}, p.pattern.size(), p.ranges.size(), size_t{p.classes.count()}, p.sets.size(),
          p.code.size(), size_t{p.slots}, p.dfa_starts.size(), p.dfa_table.size() / (p.classes.count() + 1)}) {
      put(static_cast<uint32_t>(count));
    }
    bytes_ += p.pattern;
    for (const ClassRange& range : p.ranges) put(range.first);
    for (const ClassRange& range : p.ranges) put16(range.char_class);
    for (const ClassSet& set : p.sets) put_set(set);
    for (const RegexInstruction& i : p.code) {
      put8(static_cast<uint8_t>(i.op));
      put8(static_cast<uint8_t>(i.mode));
      put8(static_cast<uint8_t>(i.assertion));
      put8((i.negated ? kRegexNegated : 0u) | (i.behind ? kRegexBehind : 0u));
      for (const uint32_t value : {i.set, i.min, i.max, i.x, i.y}) put(value);
    }
    for (const uint16_t start : p.dfa_starts) put16(start);
    for (const uint16_t transition : p.dfa_table) put16(transition);
    return std::move(bytes_);
  }

 private:
  void put8(uint32_t value) { bytes_.push_back(static_cast<char>(static_cast<uint8_t>(value))); }
  void put16(uint32_t value) {
    put8(value & 0xff);
    put8(value >> 8);
  }
  void put(uint32_t value) {
    put16(value & 0xffff);
    put16(value >> 16);
  }
  void put_set(const ClassSet& set) {
    for (size_t first = 0; first < set.size(); first += 8) {
      uint32_t byte = 0;
      for (size_t i = first; i < set.size() && i < first + 8; ++i) byte |= set[i] ? 1u << (i - first) : 0u;
      put8(byte);
    }
  }

  const RegexProgram& program_;
  std::string bytes_;
};

}  // namespace

Result<std::string> compile_regex(std::string_view pattern) {
  TANDEM_ASSIGN(RegexTree tree, parse_regex(pattern));
  TANDEM_ASSIGN(RegexProgram program, write_regex_program(std::move(tree), pattern));
  add_regex_dfa(program);
  return RegexEncoder(program).run();
}

Result<Regex> make_regex(std::string_view pattern) {
  TANDEM_ASSIGN(const std::string compiled, compile_regex(pattern));
  return Regex::load(compiled);
}

}  // namespace tandem

// Reads compiled regular expressions, and trusts no byte of them.
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "tokenizer/regex_format.h"
#include "tokenizer/regex_program.h"
#include "unicode/utf8.h"

namespace tandem {
namespace {

using Op = RegexInstruction::Op;

constexpr size_t kMaxPatternBytes = 64 * 1024;
constexpr uint32_t kMaxClasses = 0xffff;
constexpr size_t kMaxTransitions = size_t{1} << 20;

Error damaged() { return corrupt("a regular expression of the compiled tokenizer is damaged"); }

class RegexReader {
 public:
  explicit RegexReader(std::string_view bytes) : bytes_(bytes) {}

  Result<RegexProgram> run() {
    uint32_t counts[9] = {};
    if (!has(9, 4)) return damaged();
    for (uint32_t& count : counts) count = get32();
    const auto [format, pattern, ranges, classes, sets, instructions, slots, starts, states] = counts;
    if (format != kRegexFormat) {
      return unsupported(
          "a regular expression of the compiled tokenizer has format {}, this build reads {}; compile "
          "the model again",
          format, kRegexFormat);
    }
    if (pattern > kMaxPatternBytes || ranges == 0 || classes == 0 || classes > kMaxClasses || instructions == 0 ||
        instructions > kMaxRegexInstructions || sets > instructions || slots > instructions) {
      return damaged();
    }
    if (!has(pattern, 1)) return damaged();
    program_.pattern = take(pattern);
    program_.slots = slots;
    if (!is_valid_utf8(program_.pattern) || !read_ranges(ranges, classes) || !read_sets(sets, classes) ||
        !read_code(instructions) || !read_dfa(states, starts, classes + 1) || !bytes_.empty()) {
      return damaged();
    }
    program_.classes = CharClasses(program_.ranges, classes);
    if (states != 0) program_.dfa = RegexDfa(program_.dfa_table, program_.dfa_starts, classes);
    find_first_bytes(program_);
    return std::move(program_);
  }

 private:
  bool has(uint64_t count, uint64_t size) const { return count * size <= bytes_.size(); }
  std::string_view take(size_t size) {
    const std::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return taken;
  }
  uint8_t get8() { return static_cast<uint8_t>(take(1)[0]); }
  uint16_t get16() {
    uint16_t value;
    std::memcpy(&value, take(2).data(), 2);
    return value;
  }
  uint32_t get32() {
    uint32_t value;
    std::memcpy(&value, take(4).data(), 4);
    return value;
  }

  bool read_ranges(uint32_t count, uint32_t classes) {
    if (!has(count, 6)) return false;
    program_.ranges.resize(count);
    for (uint32_t i = 0; i < count; ++i) {
      const char32_t first = get32();
      if (i == 0 ? first != 0 : first <= program_.ranges[i - 1].first || first > 0x10ffff) return false;
      program_.ranges[i].first = first;
    }
    for (ClassRange& range : program_.ranges) {
      range.char_class = get16();
      if (range.char_class >= classes) return false;
    }
    return true;
  }

  bool read_sets(uint32_t count, uint32_t classes) {
    const uint32_t bytes_per_set = (classes + 7) / 8;
    if (!has(count, bytes_per_set)) return false;
    for (uint32_t i = 0; i < count; ++i) {
      const std::string_view bits = take(bytes_per_set);
      ClassSet& set = program_.sets.emplace_back(classes);
      for (uint32_t k = 0; k < classes; ++k) set[k] = (static_cast<uint8_t>(bits[k / 8]) >> (k % 8) & 1) != 0;
    }
    return true;
  }

  bool read_code(uint32_t count) {
    if (!has(count, 24)) return false;
    for (uint32_t at = 0; at < count; ++at) {
      RegexInstruction& i = program_.code.emplace_back();
      const uint8_t op = get8(), mode = get8(), assertion = get8(), flags = get8();
      for (uint32_t* value : {&i.set, &i.min, &i.max, &i.x, &i.y}) *value = get32();
      if (op > static_cast<uint8_t>(Op::kAccept) || mode > static_cast<uint8_t>(RepeatMode::kPossessive) ||
          assertion > static_cast<uint8_t>(RegexAssertion::kLineEnd) || flags > (kRegexNegated | kRegexBehind)) {
        return false;
      }
      i.op = static_cast<Op>(op);
      i.mode = static_cast<RepeatMode>(mode);
      i.assertion = static_cast<RegexAssertion>(assertion);
      i.negated = (flags & kRegexNegated) != 0;
      i.behind = (flags & kRegexBehind) != 0;
    }
    return check_regions() && std::all_of(program_.code.begin(), program_.code.end(),
                                          [&](const RegexInstruction& i) { return check_operands(i); });
  }

  // The body of a condition or an atomic group follows it, up to `x`, and ends with kAccept. Nothing jumps in or out.
  bool check_regions() {
    const auto count = static_cast<uint32_t>(program_.code.size());
    std::vector<uint32_t> ends = {count};  // Of the regions around an instruction.
    regions_.resize(count);
    for (uint32_t at = 0; at < count; ++at) {
      while (at == ends.back()) ends.pop_back();
      regions_[at] = ends.back();
      const RegexInstruction& i = program_.code[at];
      if (at + 1 == ends.back() && i.op != Op::kAccept) return false;
      if (i.op != Op::kLook && i.op != Op::kAtomic) continue;
      if (i.x <= at + 1 || i.x >= ends.back() || ends.size() > kMaxRegexNesting) return false;
      ends.push_back(i.x);
    }
    for (uint32_t at = 0; at < count; ++at) {
      const RegexInstruction& i = program_.code[at];
      const auto is_here = [&](uint32_t to) { return to < count && regions_[to] == regions_[at]; };
      const bool uses_x = i.op == Op::kSplit || i.op == Op::kJump || i.op == Op::kLook || i.op == Op::kAtomic;
      const bool uses_y = i.op == Op::kSplit || i.op == Op::kNextRound;
      if ((uses_x && !is_here(i.x)) || (uses_y && !is_here(i.y))) return false;
    }
    return true;
  }

  bool check_operands(const RegexInstruction& i) const {
    switch (i.op) {
      case Op::kSet: return i.set < program_.sets.size();
      case Op::kRepeat: return i.set < program_.sets.size() && i.min <= i.max && i.min != kUnbounded;
      case Op::kLook: return !i.behind || i.min <= kMaxLookbehind;
      case Op::kEnterLoop:
      case Op::kNextRound: return i.x < program_.slots;
      case Op::kSplit:
      case Op::kJump:
      case Op::kAssert:
      case Op::kAtomic:
      case Op::kAccept: return true;
    }
    return false;
  }

  bool read_dfa(uint32_t states, uint32_t starts, uint32_t stride) {
    if (states == 0) return starts == 0;
    const uint64_t transitions = uint64_t{states} * stride;
    if (states > RegexDfa::kEndsMatch || transitions > kMaxTransitions || (starts != 1 && starts != stride) ||
        !has(starts + transitions, 2)) {
      return false;
    }
    for (uint32_t i = 0; i < starts; ++i) program_.dfa_starts.push_back(get16());
    for (uint64_t i = 0; i < transitions; ++i) program_.dfa_table.push_back(get16());
    const auto is_state = [&](uint16_t to) { return (to & (RegexDfa::kEndsMatch - 1u)) < states; };
    return std::all_of(program_.dfa_starts.begin(), program_.dfa_starts.end(),
                       [&](uint16_t to) { return to < RegexDfa::kEndsMatch && is_state(to); }) &&
           std::all_of(program_.dfa_table.begin(), program_.dfa_table.end(), is_state);
  }

  std::string_view bytes_;
  RegexProgram program_;
  std::vector<uint32_t> regions_;  // By instruction: where the innermost region around it ends.
};

}  // namespace

Result<RegexProgram> read_regex(std::string_view bytes) { return RegexReader(bytes).run(); }

}  // namespace tandem

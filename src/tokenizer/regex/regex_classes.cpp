// The classes of characters that a pattern's sets distinguish.
#include <algorithm>
#include <map>

#include "base/error.h"
#include "tokenizer/regex/regex_tree.h"

namespace tandem {
namespace {

constexpr uint32_t kNoSet = 0xffffffffu;
constexpr size_t kMaxClasses = 0xffff;

bool is_same(const std::vector<CodePointRange>& a, const std::vector<CodePointRange>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const CodePointRange& left, const CodePointRange& right) {
                      return left.first == right.first && left.last == right.last;
                    });
}

bool has_line_assertion(const RegexProgram& program) {
  return std::any_of(program.code.begin(), program.code.end(), [](const RegexInstruction& i) {
    return i.op == RegexInstruction::Op::kAssert &&
           (i.assertion == RegexAssertion::kLineBegin || i.assertion == RegexAssertion::kLineEnd);
  });
}

// The sets that the instructions use, without duplicates. Renumbers them in the instructions.
std::vector<const CharSet*> used_sets(std::span<const CharSet> sets, RegexProgram& program) {
  std::vector<uint32_t> numbers(sets.size(), kNoSet);
  std::vector<const CharSet*> used;
  for (RegexInstruction& i : program.code) {
    if (i.op != RegexInstruction::Op::kSet && i.op != RegexInstruction::Op::kRepeat) continue;
    uint32_t& number = numbers[i.set];
    for (size_t k = 0; k < used.size() && number == kNoSet; ++k) {
      if (is_same(used[k]->ranges(), sets[i.set].ranges())) number = static_cast<uint32_t>(k);
    }
    if (number == kNoSet) {
      number = static_cast<uint32_t>(used.size());
      used.push_back(&sets[i.set]);
    }
    i.set = number;
  }
  return used;
}

}  // namespace

Status find_classes(std::span<const CharSet> sets, RegexProgram& program) {
  std::vector<const CharSet*> used = used_sets(sets, program);
  const size_t set_count = used.size();
  CharSet line_break;  // For the assertions about lines.
  line_break.add('\n', '\n');
  if (has_line_assertion(program)) used.push_back(&line_break);

  std::map<char32_t, std::vector<size_t>> changes;  // The sets that begin or end at a character.
  changes[0];
  for (size_t i = 0; i < used.size(); ++i) {
    for (const CodePointRange& range : used[i]->ranges()) {
      changes[range.first].push_back(i);
      if (range.last < 0x10ffff) changes[range.last + 1].push_back(i);
    }
  }
  std::map<std::vector<bool>, uint16_t> classes;  // By the sets that its characters are in.
  std::vector<bool> member(used.size());
  for (const auto& [first, toggled] : changes) {
    for (const size_t i : toggled) member[i] = !member[i];
    const auto [found, is_new] = classes.emplace(member, static_cast<uint16_t>(classes.size()));
    if (classes.size() > kMaxClasses) {
      return unsupported("the tokenizer's regular expression \"{}\" tells too many characters apart",
                         shown_pattern(program.pattern));
    }
    if (program.ranges.empty() || program.ranges.back().char_class != found->second) {
      program.ranges.push_back({first, found->second});
    }
  }
  program.sets.assign(set_count, ClassSet(classes.size()));
  for (const auto& [members, number] : classes) {
    for (size_t i = 0; i < set_count; ++i) program.sets[i][number] = members[i];
  }
  program.classes = CharClasses(program.ranges, static_cast<uint32_t>(classes.size()));
  return ok_status();
}

}  // namespace tandem

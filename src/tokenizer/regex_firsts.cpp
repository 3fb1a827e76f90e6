// What a match may begin with at each choice of a program, so that choices that must fail are not tried.
#include "tokenizer/regex_program.h"

namespace tandem {
namespace {

using Op = RegexInstruction::Op;

constexpr size_t kMaxLookahead = 64;  // Instructions examined for the bytes that can begin a match.

class FirstByteFinder {
 public:
  explicit FirstByteFinder(RegexProgram& program) : program_(program) {
    const std::vector<std::bitset<256>> leads = program.classes.lead_bytes();
    for (const ClassSet& set : program.sets) {
      std::bitset<256> all;
      for (size_t i = 0; i < leads.size(); ++i) {
        if (set[i]) all |= leads[i];
      }
      FirstBytes& bytes = set_firsts_.emplace_back();
      for (size_t byte = 0; byte < 256; ++byte) bytes.set(byte, all[byte]);
    }
  }

  void run() {
    add_firsts();
    add_branches();
    program_.begins = first_bytes(0);
    program_.can_be_empty = program_.begins.all();
  }

 private:
  uint32_t here() const { return static_cast<uint32_t>(program_.code.size()); }

  void add_firsts() {
    for (uint32_t i = 0; i < program_.code.size(); ++i) {
      RegexInstruction& instruction = program_.code[i];
      if (instruction.op == Op::kSplit) {
        instruction.first_x = add_first(instruction.x);
        instruction.first_y = add_first(instruction.y);
      } else if (instruction.op == Op::kRepeat) {
        instruction.first_x = add_first(i + 1);
        uint32_t next = i + 1;
        while (program_.code[next].op == Op::kJump && program_.code[next].x > next) next = program_.code[next].x;
        instruction.ends_match = next + 1 == here();
      }
    }
  }

  // From the last to the first, so that a split knows where the one after it leads.
  void add_branches() {
    for (uint32_t at = here(); at-- > 0;) {
      RegexInstruction& split = program_.code[at];
      if (split.op != Op::kSplit) continue;
      Branches& table = program_.branches.emplace_back();
      for (size_t bit = 0; bit < table.size(); ++bit) {
        uint32_t to = at;
        if (!program_.firsts[split.first_x][bit]) {
          const RegexInstruction& next = program_.code[split.y];
          const bool is_chain = next.op == Op::kSplit && split.y > at;
          to = is_chain ? program_.branches[next.branches][bit] : split.y;
        }
        table[bit] = static_cast<uint16_t>(to);
      }
      split.branches = static_cast<uint32_t>(program_.branches.size() - 1);
    }
  }

  uint32_t add_first(uint32_t at) {
    program_.firsts.push_back(first_bytes(at));
    return static_cast<uint32_t>(program_.firsts.size()) - 1;
  }

  // What a match that continues at `at` may begin with; all bits if that is not easily known.
  FirstBytes first_bytes(uint32_t at) const {
    FirstBytes bytes;
    std::vector<uint32_t> waiting = {at};
    size_t looked_at = 0;
    while (!waiting.empty()) {
      if (++looked_at > kMaxLookahead) return FirstBytes().set();
      const uint32_t place = waiting.back();
      waiting.pop_back();
      const RegexInstruction& i = program_.code[place];
      switch (i.op) {
        case Op::kRepeat:
          if (i.min == 0) waiting.push_back(place + 1);
          [[fallthrough]];
        case Op::kSet: bytes |= set_firsts_[i.set]; break;
        case Op::kSplit:
          waiting.push_back(i.x);
          waiting.push_back(i.y);
          break;
        case Op::kLook:  // A condition only excludes matches.
        case Op::kJump: waiting.push_back(i.x); break;
        case Op::kAssert:
        case Op::kEnterLoop:
        case Op::kAtomic: waiting.push_back(place + 1); break;
        case Op::kNextRound:
        case Op::kAccept: return FirstBytes().set();
      }
    }
    return bytes;
  }

  RegexProgram& program_;
  std::vector<FirstBytes> set_firsts_;
};

}  // namespace

void find_first_bytes(RegexProgram& program) { FirstByteFinder(program).run(); }

}  // namespace tandem

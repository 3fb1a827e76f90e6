// From the tree of a regular expression to its program.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "tokenizer/regex_program.h"

namespace tandem {
namespace {

using Op = RegexInstruction::Op;

// The patterns of real tokenizers have some fifty instructions. Repeated groups are copies, so that a short pattern can
// become a long program.
constexpr size_t kMaxInstructions = 4096;
constexpr size_t kMaxVisits = 1 << 16;
constexpr uint32_t kMaxLookbehind = 255;
constexpr size_t kMaxLookahead = 64;  // Instructions that are looked at for the bytes that can begin a match.

bool can_be_empty(const RegexNode& node) {
  const auto empty = [](const RegexNode& child) { return can_be_empty(child); };
  switch (node.kind) {
    case RegexNode::Kind::kSet: return false;
    case RegexNode::Kind::kConcat: return std::all_of(node.children.begin(), node.children.end(), empty);
    case RegexNode::Kind::kAlternate: return std::any_of(node.children.begin(), node.children.end(), empty);
    case RegexNode::Kind::kRepeat: return node.min == 0 || can_be_empty(node.children[0]);
    case RegexNode::Kind::kAtomic: return can_be_empty(node.children[0]);
    default: return true;
  }
}

class Compiler {
 public:
  Compiler(RegexTree tree, std::string_view pattern) : tree_(std::move(tree)), pattern_(pattern) {}

  Result<RegexProgram> run() {
    TANDEM_TRY(emit(tree_.root));
    add({.op = Op::kAccept});
    program_.sets = std::move(tree_.sets);
    for (const CharSet& set : program_.sets) {
      FirstBytes& bytes = set_firsts_.emplace_back();
      for (size_t byte = 0; byte < 256; ++byte) bytes.set(byte, set.may_begin_with(static_cast<uint8_t>(byte)));
    }
    add_firsts();
    add_branches();
    program_.begins = first_bytes(0);
    program_.can_be_empty = program_.begins.all();
    return std::move(program_);
  }

 private:
  uint32_t here() const { return static_cast<uint32_t>(program_.code.size()); }
  uint32_t add(RegexInstruction instruction) {
    program_.code.push_back(instruction);
    return here() - 1;
  }

  Status emit(const RegexNode& node) {
    if (++visits_ > kMaxVisits || program_.code.size() > kMaxInstructions) {
      return unsupported("the tokenizer's regular expression \"{}\" is too large once its repetitions are written out",
                         shown_pattern(pattern_));
    }
    switch (node.kind) {
      case RegexNode::Kind::kSet: add({.op = Op::kSet, .set = node.set}); return ok_status();
      case RegexNode::Kind::kConcat:
        for (const RegexNode& child : node.children) TANDEM_TRY(emit(child));
        return ok_status();
      case RegexNode::Kind::kAlternate: return emit_alternatives(node);
      case RegexNode::Kind::kRepeat: return emit_repeat(node);
      case RegexNode::Kind::kAssert: add({.op = Op::kAssert, .assertion = node.assertion}); return ok_status();
      case RegexNode::Kind::kLookahead:
      case RegexNode::Kind::kLookbehind:
      case RegexNode::Kind::kAtomic: return emit_apart(node);
    }
    return ok_status();
  }

  // What is matched on its own: a condition, or a group that is never entered again.
  Status emit_apart(const RegexNode& node) {
    const uint32_t at = add({.op = node.kind == RegexNode::Kind::kAtomic ? Op::kAtomic : Op::kLook,
                             .negated = node.negated,
                             .behind = node.kind == RegexNode::Kind::kLookbehind,
                             .min = node.length});
    for (const RegexNode& child : node.children) TANDEM_TRY(emit(child));
    add({.op = Op::kAccept});
    program_.code[at].x = here();
    return ok_status();
  }

  Status emit_alternatives(const RegexNode& node) {
    std::vector<uint32_t> jumps;
    for (size_t i = 0; i < node.children.size(); ++i) {
      const bool is_last = i + 1 == node.children.size();
      const uint32_t split = is_last ? 0 : add({.op = Op::kSplit, .x = here() + 1});
      TANDEM_TRY(emit(node.children[i]));
      if (is_last) break;
      jumps.push_back(add({.op = Op::kJump}));
      program_.code[split].y = here();
    }
    for (const uint32_t jump : jumps) program_.code[jump].x = here();
    return ok_status();
  }

  Status emit_repeat(const RegexNode& node) {
    const RegexNode& body = node.children[0];
    if (body.kind == RegexNode::Kind::kSet) {
      add({.op = Op::kRepeat, .mode = node.mode, .set = body.set, .min = node.min, .max = node.max});
      return ok_status();
    }
    if (node.mode == RepeatMode::kPossessive) {
      RegexNode greedy = node;
      greedy.mode = RepeatMode::kGreedy;
      RegexNode atomic{.kind = RegexNode::Kind::kAtomic};
      atomic.children.push_back(std::move(greedy));
      return emit_apart(atomic);
    }
    for (uint32_t i = 0; i < node.min; ++i) TANDEM_TRY(emit(body));
    if (node.max == kUnbounded) return emit_loop(node);
    std::vector<uint32_t> splits;
    for (uint32_t i = node.min; i < node.max; ++i) {
      splits.push_back(add({.op = Op::kSplit}));
      set_branches(splits.back(), node.mode, here(), 0);
      TANDEM_TRY(emit(body));
    }
    for (const uint32_t split : splits) set_branches(split, node.mode, split + 1, here());
    return ok_status();
  }

  Status emit_loop(const RegexNode& node) {
    const RegexNode& body = node.children[0];
    const uint32_t split = add({.op = Op::kSplit});
    if (can_be_empty(body)) {
      const uint32_t slot = program_.slots++;
      add({.op = Op::kEnterLoop, .x = slot});
      TANDEM_TRY(emit(body));
      add({.op = Op::kNextRound, .x = slot, .y = split});
    } else {
      TANDEM_TRY(emit(body));
      add({.op = Op::kJump, .x = split});
    }
    set_branches(split, node.mode, split + 1, here());
    return ok_status();
  }

  void set_branches(uint32_t split, RepeatMode mode, uint32_t more, uint32_t done) {
    const bool lazy = mode == RepeatMode::kLazy;
    program_.code[split].x = lazy ? done : more;
    program_.code[split].y = lazy ? more : done;
  }

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

  // From the last to the first, so that a split knows where the one behind it leads.
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

  // What a match that goes on at `at` may begin with; all bits if that is not easily known.
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
        case Op::kLook:  // A condition only takes away.
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

  RegexTree tree_;
  std::string_view pattern_;
  RegexProgram program_;
  std::vector<FirstBytes> set_firsts_;
  size_t visits_ = 0;
};

}  // namespace

std::optional<uint32_t> fixed_length(const RegexNode& node) {
  switch (node.kind) {
    case RegexNode::Kind::kSet: return 1;
    case RegexNode::Kind::kConcat:
    case RegexNode::Kind::kAtomic: {
      uint32_t sum = 0;
      for (const RegexNode& child : node.children) {
        const std::optional<uint32_t> length = fixed_length(child);
        if (!length || (sum += *length) > kMaxLookbehind) return std::nullopt;
      }
      return sum;
    }
    case RegexNode::Kind::kAlternate: {
      const std::optional<uint32_t> first = fixed_length(node.children[0]);
      for (const RegexNode& child : node.children) {
        if (fixed_length(child) != first) return std::nullopt;
      }
      return first;
    }
    case RegexNode::Kind::kRepeat: {
      const std::optional<uint32_t> length = fixed_length(node.children[0]);
      if (!length || node.min != node.max || uint64_t{node.min} * *length > kMaxLookbehind) return std::nullopt;
      return node.min * *length;
    }
    default: return 0;
  }
}

Result<RegexProgram> compile_regex(RegexTree tree, std::string_view pattern) {
  return Compiler(std::move(tree), pattern).run();
}

}  // namespace tandem

// From the tree of a regular expression to its program.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "tokenizer/regex/regex_tree.h"

namespace tandem {
namespace {

using Op = RegexInstruction::Op;

// The patterns of real tokenizers have about fifty instructions. Repeated groups are copied, so a short pattern can
// become a long program.
constexpr size_t kMaxInstructions = 4096;
constexpr size_t kMaxVisits = 1 << 16;

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

class RegexWriter {
 public:
  RegexWriter(RegexTree tree, std::string_view pattern) : tree_(std::move(tree)), pattern_(pattern) {}

  Result<RegexProgram> run() {
    TANDEM_TRY(emit(tree_.root));
    add({.op = Op::kAccept});
    program_.pattern = pattern_;
    TANDEM_TRY(find_classes(tree_.sets, program_));
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

  // Matched independently: a condition, or a group that is never re-entered.
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

  RegexTree tree_;
  std::string_view pattern_;
  RegexProgram program_;
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

Result<RegexProgram> write_regex_program(RegexTree tree, std::string_view pattern) {
  return RegexWriter(std::move(tree), pattern).run();
}

}  // namespace tandem

// A parsed template.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chat/jinja/value.h"

namespace tandem::jinja {

enum class ExprKind : uint8_t {
  kConst,
  kName,
  kAttribute,  // children[0].name
  kItem,       // children[0][children[1]]
  kSlice,      // children[0][a:b:c]; the parts may be null
  kList,
  kTuple,
  kDict,  // key, value, key, value, …
  kUnary,
  kBinary,
  kCompare,  // children[0] ops[0] children[1] ops[1] …
  kConcat,   // ~
  kAnd,
  kOr,
  kNot,
  kConditional,   // children: condition, then, else (may be null)
  kCall,          // children[0](arguments)
  kFilter,        // children[0] | name(arguments)
  kTest,          // children[0] is name(arguments)
  kNamespaceRef,  // name.attribute as the target of a set
  kBlockValue,    // The text of a {% filter %} or {% set %} block, where its filters begin
};

enum class Op : uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kFloorDiv,
  kMod,
  kPow,
  kNeg,
  kPos,
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kIn,
  kNotIn
};
std::string_view op_text(Op op);

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Arguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr more_positional;  // *list
  ExprPtr more_named;       // **dict
};

struct Expr {
  ExprKind kind = ExprKind::kConst;
  Op op = Op::kAdd;
  int line = 1;
  int depth = 1;
  std::string name;
  std::string attribute;  // Of kNamespaceRef.
  Value value;
  std::vector<ExprPtr> children;
  std::vector<Op> ops;
  std::unique_ptr<Arguments> arguments;
};

enum class StmtKind : uint8_t {
  kText,
  kPrint,
  kSet,
  kSetBlock,
  kFor,
  kIf,
  kMacro,
  kCallBlock,
  kFilterBlock,
  kWith,
  kScope,  // {% generation %}: its content, with variables of its own
  kBreak,
  kContinue,
};

struct Stmt;
using Body = std::vector<std::unique_ptr<Stmt>>;

struct Parameter {
  std::string name;
  ExprPtr fallback;  // May be null.
};

struct Stmt {
  StmtKind kind = StmtKind::kText;
  int line = 1;
  std::string text;   // Of kText; the name of a macro.
  ExprPtr target;     // Of set, for.
  ExprPtr expr;       // What is printed, set, looped over, called or filtered with.
  ExprPtr condition;  // for … if
  bool recursive = false;
  Body body;
  Body otherwise;                                        // else
  std::vector<std::pair<ExprPtr, Body>> branches;        // Of if.
  std::vector<std::pair<ExprPtr, ExprPtr>> assignments;  // Of with.
  std::vector<Parameter> parameters;                     // Of macro and call.
  bool uses_varargs = false;
  bool uses_kwargs = false;
  bool uses_caller = false;
};

}  // namespace tandem::jinja

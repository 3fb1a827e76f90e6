// TANDEM_TRY and TANDEM_ASSIGN: errors go up by themselves. Not among the public headers, because macros would be
// everybody's there.
#pragma once

#include <utility>

#include "tandem/status.h"

#define TANDEM_CONCAT_INNER(a, b) a##b
#define TANDEM_CONCAT(a, b) TANDEM_CONCAT_INNER(a, b)

// Returns from the enclosing function if `expr` (a Status) failed.
#define TANDEM_TRY(expr)                                                                              \
  do {                                                                                                \
    if (::tandem::Status tandem_try = (expr); !tandem_try.ok()) return std::move(tandem_try).error(); \
  } while (false)

// `TANDEM_ASSIGN(auto file, MappedFile::open(path));` declares or assigns the value, or returns the error.
#define TANDEM_ASSIGN(lhs, expr) TANDEM_ASSIGN_INNER(TANDEM_CONCAT(tandem_result_, __LINE__), lhs, expr)
#define TANDEM_ASSIGN_INNER(result, lhs, expr)        \
  auto result = (expr);                               \
  if (!result.ok()) return std::move(result).error(); \
  lhs = std::move(result).value()

// Status and Result: how every tandem function reports failure.
//
// No tandem library function throws, aborts, exits or prints. A function that can fail returns a Status, or a
// Result<T> that holds either a T or an Error. The message is one sentence for a person: what is wrong, and what to
// do about it. This header has no dependencies, because apps include it.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace tandem {

enum class ErrorCode {
  kInvalidArgument,    // The caller asked for something that makes no sense.
  kNotFound,           // A file, tensor, method or token that should be there is not.
  kUnsupported,        // Well-formed, but nothing here can do it.
  kCorrupt,            // The bytes do not say what they should: truncated, flipped, hostile.
  kIo,                 // The operating system refused a read, write, map or rename.
  kResourceExhausted,  // Memory, context or another limit is used up.
  kCancelled,          // The user asked to stop.
  kInternal,           // A bug in tandem.
};

// A short name for logs and JSON, such as "not_found".
const char* error_code_name(ErrorCode code);

struct [[nodiscard]] Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
};

// Success, or an Error.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error error) : error_(std::move(error)) {}  // NOLINT: implicit on purpose, so `return Error{...}` works.

  bool ok() const { return !error_.has_value(); }
  // Only when !ok().
  const Error& error() const& { return *error_; }
  Error error() && { return *std::move(error_); }

 private:
  std::optional<Error> error_;
};

inline Status ok_status() { return {}; }

// A T, or an Error.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit on purpose.
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit on purpose.

  bool ok() const { return state_.index() == 0; }
  // Only when ok().
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  // Only when !ok().
  const Error& error() const& { return std::get<1>(state_); }
  Error error() && { return std::get<1>(std::move(state_)); }
  Status status() const { return ok() ? Status() : Status(error()); }

 private:
  std::variant<T, Error> state_;
};

}  // namespace tandem

#define TANDEM_CONCAT_INNER(a, b) a##b
#define TANDEM_CONCAT(a, b) TANDEM_CONCAT_INNER(a, b)

// Returns from the enclosing function if `expr` (a Status) failed.
#define TANDEM_TRY(expr)                                                                                       \
  do {                                                                                                         \
    if (::tandem::Status tandem_status = (expr); !tandem_status.ok()) return std::move(tandem_status).error(); \
  } while (false)

// `TANDEM_ASSIGN(auto file, MappedFile::open(path));` declares or assigns the value, or returns the error.
#define TANDEM_ASSIGN(lhs, expr) TANDEM_ASSIGN_INNER(TANDEM_CONCAT(tandem_result_, __LINE__), lhs, expr)
#define TANDEM_ASSIGN_INNER(result, lhs, expr)        \
  auto result = (expr);                               \
  if (!result.ok()) return std::move(result).error(); \
  lhs = std::move(result).value()

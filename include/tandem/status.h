// Status and Result: how every tandem function reports failure.
//
// No tandem library function throws, aborts, exits or prints. A function that can fail returns a Status, or a
// Result<T> that holds either a T or an Error. The message is one sentence for a person: what is wrong, and what to
// do about it. This header needs no library: apps may include it without linking one.
//
// Asking a Status or Result for what it does not hold is the caller's mistake, but a harmless one: error() of a success
// returns kInternal and "no error", value() of a failure returns an empty T (a null pointer, an empty string). A Status
// or Result that was moved from keeps its ok(); its contents are whatever a move leaves behind.
#pragma once

#include <optional>
#include <string>
#include <type_traits>
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
inline const char* error_code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument: return "invalid_argument";
    case ErrorCode::kNotFound: return "not_found";
    case ErrorCode::kUnsupported: return "unsupported";
    case ErrorCode::kCorrupt: return "corrupt";
    case ErrorCode::kIo: return "io";
    case ErrorCode::kResourceExhausted: return "resource_exhausted";
    case ErrorCode::kCancelled: return "cancelled";
    case ErrorCode::kInternal: return "internal";
  }
  return "unknown";
}

struct [[nodiscard]] Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
};

// Returned by error() of a success.
inline const Error& no_error() {
  static const Error error{ErrorCode::kInternal, "no error"};
  return error;
}

// Success, or an Error.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error error) : error_(std::move(error)) {}  // NOLINT: implicit on purpose, so `return Error{...}` works.

  bool ok() const { return !error_.has_value(); }
  const Error& error() const& { return error_ ? *error_ : no_error(); }
  Error error() && { return error_ ? *std::move(error_) : no_error(); }

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
  T& value() & { return ok() ? *std::get_if<0>(&state_) : empty(); }
  const T& value() const& { return ok() ? *std::get_if<0>(&state_) : empty(); }
  T value() && { return std::move(ok() ? *std::get_if<0>(&state_) : empty()); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const Error& error() const& { return ok() ? no_error() : std::get<1>(state_); }
  Error error() && { return ok() ? no_error() : std::get<1>(std::move(state_)); }
  Status status() const { return ok() ? Status() : Status(error()); }

 private:
  // For the value of a failure. One per thread, made anew each time, so that no caller sees what another wrote there. A
  // T that cannot be empty, as some inside tandem cannot, gives std::bad_variant_access; no public call returns such a
  // T.
  static T& empty() {
    if constexpr (std::is_default_constructible_v<T>) {
      thread_local std::optional<T> value;
      return value.emplace();
    } else {
      static std::variant<T, Error> failure(std::in_place_index<1>);
      return std::get<0>(failure);
    }
  }

  std::variant<T, Error> state_;
};

}  // namespace tandem

// An error of the library on its way to Python, where it becomes an exception of the class for its code.
#pragma once

#include <exception>
#include <utility>

#include "tandem/status.h"

namespace tandem::python {

class Failure : public std::exception {
 public:
  explicit Failure(Error error) : error_(std::move(error)) {}
  const Error& error() const { return error_; }
  const char* what() const noexcept override { return error_.message.c_str(); }

 private:
  Error error_;
};

inline void check(const Status& status) {
  if (!status.ok()) throw Failure(status.error());
}

template <typename T>
T take(Result<T> result) {
  if (!result.ok()) throw Failure(std::move(result).error());
  return std::move(result).value();
}

}  // namespace tandem::python

// QNN's error codes in words: what happened, and what to do about it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "backends/qnn/api/abi.h"
#include "tandem/status.h"

namespace tandem::qnn {

inline constexpr uint32_t kCodeNotSupported = 1000;
inline constexpr uint32_t kCodeInvalidArgument = 1004;
inline constexpr uint32_t kCodeNotPermitted = 1005;
inline constexpr uint32_t kCodePlatformNotSupported = 1006;
inline constexpr uint32_t kCodeValidationFailure = 3110;
inline constexpr uint32_t kCodeInvalidContextConfig = 5010;
inline constexpr uint32_t kCodeInvalidDeviceConfig = 14001;

// What is known about a code.
struct ErrorText {
  uint32_t code;
  std::string_view name;       // "CREATE_FROM_BINARY"
  ErrorCode kind;              // Our callers' error code.
  std::string_view what;       // "the context binary was refused or is damaged"
  std::string_view what_next;  // "compile it again"; may be empty
};
// Null for a code that is not in the table.
const ErrorText* find_error(uint32_t code);

// A sentence for a failed call. `doing` says what was tried ("finalizing graph decode"); `library_said` is what the
// library logged meanwhile, if anything.
Error describe_error(abi::ErrorHandle result, std::string_view doing, const std::string& library_said = {});

}  // namespace tandem::qnn

// What every function of the C interface does on its way out: no exception leaves, the error becomes the thread's last
// message, and results become memory that C can free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "c_api/function_ref.h"
#include "tandem/status.h"
#include "tandem/tandem.h"

namespace tandem::c_api {

// Keeps the message for tandem_last_error() and returns the code.
tandem_status report(Error error) noexcept;
tandem_status code_of(const Error& error) noexcept;

tandem_status at_border(FunctionRef<Status()> call);

// Copies for the caller, who frees them. The pointers are checked, and zeroed at first, by clear().
Status copy_text(std::string_view text, char** copy, size_t* length);
Status copy_tokens(std::span<const int32_t> tokens, int32_t** copy, size_t* count);
// `length` of a text may be null.
Status clear(char** text, size_t* length);
Status clear(int32_t** tokens, size_t* count);

// An array of the caller's; an error if it is null and has elements.
Result<std::span<const int32_t>> token_span(const int32_t* tokens, size_t count);
// A text that must not be null.
Result<std::string_view> text_view(const char* text, const char* what);
// An error if there are others than `allowed`.
Status check_flags(uint32_t flags, uint32_t allowed);

}  // namespace tandem::c_api

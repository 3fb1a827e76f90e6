#include "c_api/border.h"

#include <cstdlib>
#include <cstring>
#include <string>

#include "base/error.h"
#include "base/guarded.h"

namespace tandem::c_api {
namespace {

static_assert(TANDEM_INVALID_ARGUMENT == static_cast<int>(ErrorCode::kInvalidArgument) + 1);
static_assert(TANDEM_NOT_FOUND == static_cast<int>(ErrorCode::kNotFound) + 1);
static_assert(TANDEM_UNSUPPORTED == static_cast<int>(ErrorCode::kUnsupported) + 1);
static_assert(TANDEM_CORRUPT == static_cast<int>(ErrorCode::kCorrupt) + 1);
static_assert(TANDEM_IO == static_cast<int>(ErrorCode::kIo) + 1);
static_assert(TANDEM_RESOURCE_EXHAUSTED == static_cast<int>(ErrorCode::kResourceExhausted) + 1);
static_assert(TANDEM_CANCELLED == static_cast<int>(ErrorCode::kCancelled) + 1);
static_assert(TANDEM_INTERNAL == static_cast<int>(ErrorCode::kInternal) + 1);

std::string& last_message() {
  thread_local std::string message;
  return message;
}

}  // namespace

tandem_status code_of(const Error& error) noexcept { return static_cast<tandem_status>(error.code) + 1; }

tandem_status report(Error error) noexcept {
  last_message() = std::move(error.message);
  return code_of(error);
}

tandem_status at_border(FunctionRef<Status()> call) {
  Status status = guarded([&] { return call(); });
  return status.ok() ? TANDEM_OK : report(std::move(status).error());
}

Status clear(char** text, size_t* length) {
  if (length != nullptr) *length = 0;
  if (text == nullptr) return invalid_argument("there is no place for the text: its pointer is NULL");
  *text = nullptr;
  return ok_status();
}

Status clear(int32_t** tokens, size_t* count) {
  if (tokens != nullptr) *tokens = nullptr;
  if (count != nullptr) *count = 0;
  if (tokens == nullptr || count == nullptr) {
    return invalid_argument("there is no place for the tokens or their count: a pointer is NULL");
  }
  return ok_status();
}

Status copy_text(std::string_view text, char** copy, size_t* length) {
  auto* memory = static_cast<char*>(std::malloc(text.size() + 1));
  if (memory == nullptr) return out_of_memory();
  if (!text.empty()) std::memcpy(memory, text.data(), text.size());
  memory[text.size()] = '\0';
  *copy = memory;
  if (length != nullptr) *length = text.size();
  return ok_status();
}

Status copy_tokens(std::span<const int32_t> tokens, int32_t** copy, size_t* count) {
  if (tokens.empty()) return ok_status();
  auto* memory = static_cast<int32_t*>(std::malloc(tokens.size_bytes()));
  if (memory == nullptr) return out_of_memory();
  std::memcpy(memory, tokens.data(), tokens.size_bytes());
  *copy = memory;
  *count = tokens.size();
  return ok_status();
}

Result<std::span<const int32_t>> token_span(const int32_t* tokens, size_t count) {
  if (tokens == nullptr && count > 0) return invalid_argument("`tokens` is NULL, but there should be {}", count);
  if (count > PTRDIFF_MAX / sizeof(int32_t)) return invalid_argument("{} tokens are more than memory holds", count);
  return std::span(tokens, count);
}

Result<std::string_view> text_view(const char* text, const char* what) {
  if (text == nullptr) return invalid_argument("{} is NULL; give a text", what);
  return std::string_view(text);
}

Status check_flags(uint32_t flags, uint32_t allowed) {
  if ((flags & ~allowed) == 0) return ok_status();
  return invalid_argument("this function does not know the flags 0x{:x}; see tandem.h for those it takes",
                          flags & ~allowed);
}

}  // namespace tandem::c_api

extern "C" {

const char* tandem_last_error(void) { return tandem::c_api::last_message().c_str(); }

void tandem_free(void* memory) { std::free(memory); }
}

#include "c_api/structs.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "base/error.h"
#include "c_api/border.h"

namespace tandem::c_api {
namespace {

// More than any struct will have: `size` was not set.
constexpr size_t kLargest = 4096;

#define TANDEM_FIELD(S, field) \
  FieldRange { offsetof(S, field), sizeof(S::field) }

constexpr FieldRange kEngineOptionsFields[] = {
    TANDEM_FIELD(tandem_engine_options, threads),
    TANDEM_FIELD(tandem_engine_options, verify),
    TANDEM_FIELD(tandem_engine_options, log_level),
    TANDEM_FIELD(tandem_engine_options, reserved),
    TANDEM_FIELD(tandem_engine_options, log),
    TANDEM_FIELD(tandem_engine_options, log_user_data),
    TANDEM_FIELD(tandem_engine_options, backend_options),  // NOLINT: the size of the pointer is meant.
    TANDEM_FIELD(tandem_engine_options, backend_option_count),
    TANDEM_FIELD(tandem_engine_options, run_on),
    TANDEM_FIELD(tandem_engine_options, decode_on),
};
constexpr FieldRange kEngineInfoFields[] = {
    TANDEM_FIELD(tandem_engine_info, mode),          TANDEM_FIELD(tandem_engine_info, threads),
    TANDEM_FIELD(tandem_engine_info, context),       TANDEM_FIELD(tandem_engine_info, vocab_size),
    TANDEM_FIELD(tandem_engine_info, has_tokenizer), TANDEM_FIELD(tandem_engine_info, reserved),
    TANDEM_FIELD(tandem_engine_info, target),        TANDEM_FIELD(tandem_engine_info, backend),
    TANDEM_FIELD(tandem_engine_info, hidden_size),
};
constexpr FieldRange kGenerateOptionsFields[] = {
    TANDEM_FIELD(tandem_generate_options, temperature),
    TANDEM_FIELD(tandem_generate_options, top_k),
    TANDEM_FIELD(tandem_generate_options, top_p),
    TANDEM_FIELD(tandem_generate_options, min_p),
    TANDEM_FIELD(tandem_generate_options, repetition_penalty),
    TANDEM_FIELD(tandem_generate_options, repetition_window),
    TANDEM_FIELD(tandem_generate_options, seed),
    TANDEM_FIELD(tandem_generate_options, max_new_tokens),
    TANDEM_FIELD(tandem_generate_options, stop_strings),
    TANDEM_FIELD(tandem_generate_options, stop_string_count),
    TANDEM_FIELD(tandem_generate_options, template_variables),
    TANDEM_FIELD(tandem_generate_options, parse_special),
    TANDEM_FIELD(tandem_generate_options, ignore_eos),
    TANDEM_FIELD(tandem_generate_options, on_text),
    TANDEM_FIELD(tandem_generate_options, on_reasoning),
    TANDEM_FIELD(tandem_generate_options, user_data),
};
constexpr FieldRange kGenerateResultFields[] = {
    TANDEM_FIELD(tandem_generate_result, text),
    TANDEM_FIELD(tandem_generate_result, text_length),
    TANDEM_FIELD(tandem_generate_result, reasoning),
    TANDEM_FIELD(tandem_generate_result, reasoning_length),
    TANDEM_FIELD(tandem_generate_result, stop_string),
    TANDEM_FIELD(tandem_generate_result, tokens),
    TANDEM_FIELD(tandem_generate_result, token_count),
    TANDEM_FIELD(tandem_generate_result, prompt_tokens),
    TANDEM_FIELD(tandem_generate_result, reused_tokens),
    TANDEM_FIELD(tandem_generate_result, prompt_seconds),
    TANDEM_FIELD(tandem_generate_result, first_token_seconds),
    TANDEM_FIELD(tandem_generate_result, decode_seconds),
    TANDEM_FIELD(tandem_generate_result, finish),
    TANDEM_FIELD(tandem_generate_result, reserved),
};

#undef TANDEM_FIELD

// A field that is added must not fall into the padding of an older struct, where callers leave whatever was there.
constexpr bool has_no_gaps(std::span<const FieldRange> fields, size_t size) {
  size_t end = sizeof(size_t);
  for (const FieldRange& field : fields) {
    if (field.offset != end) return false;
    end += field.size;
  }
  return end == size;
}
static_assert(sizeof(void*) != 8 || has_no_gaps(kEngineOptionsFields, sizeof(tandem_engine_options)));
static_assert(sizeof(void*) != 8 || has_no_gaps(kEngineInfoFields, sizeof(tandem_engine_info)));
static_assert(sizeof(void*) != 8 || has_no_gaps(kGenerateOptionsFields, sizeof(tandem_generate_options)));
static_assert(sizeof(void*) != 8 || has_no_gaps(kGenerateResultFields, sizeof(tandem_generate_result)));

size_t size_of(const void* given) {
  size_t size = 0;
  std::memcpy(&size, given, sizeof(size));
  return size;
}

Status check_size(const StructLayout& layout, const void* given) {
  if (given == nullptr) return invalid_argument("the {} is NULL; give one", layout.name);
  const size_t size = size_of(given);
  if (size >= sizeof(size_t) && size <= kLargest) return ok_status();
  return invalid_argument("`size` of the {} is {}; set it to sizeof({})", layout.name, size, layout.name);
}

}  // namespace

constexpr StructLayout kEngineOptionsLayout = {"tandem_engine_options", kEngineOptionsFields,
                                               sizeof(tandem_engine_options)};
constexpr StructLayout kEngineInfoLayout = {"tandem_engine_info", kEngineInfoFields, sizeof(tandem_engine_info)};
constexpr StructLayout kGenerateOptionsLayout = {"tandem_generate_options", kGenerateOptionsFields,
                                                 sizeof(tandem_generate_options)};
constexpr StructLayout kGenerateResultLayout = {"tandem_generate_result", kGenerateResultFields,
                                                sizeof(tandem_generate_result)};

bool has_field(const void* given, size_t offset, size_t size) { return offset + size <= size_of(given); }

Status read_struct(const StructLayout& layout, const void* given, void* known) {
  TANDEM_TRY(check_size(layout, given));
  const size_t size = size_of(given);
  const auto* bytes = static_cast<const unsigned char*>(given);
  if (size > layout.size && std::any_of(bytes + layout.size, bytes + size, [](unsigned char b) { return b != 0; })) {
    return unsupported(
        "the {} sets fields that this library does not know; use a library as new as the header, or leave them zero",
        layout.name);
  }
  for (const FieldRange& field : layout.fields) {
    if (!has_field(given, field.offset, field.size)) break;
    std::memcpy(static_cast<unsigned char*>(known) + field.offset, bytes + field.offset, field.size);
  }
  return ok_status();
}

Status clear_struct(const StructLayout& layout, void* given) {
  TANDEM_TRY(check_size(layout, given));
  std::memset(static_cast<unsigned char*>(given) + sizeof(size_t), 0, size_of(given) - sizeof(size_t));
  return ok_status();
}

void write_struct(const StructLayout& layout, const void* known, void* given) {
  for (const FieldRange& field : layout.fields) {
    if (!has_field(given, field.offset, field.size)) break;
    std::memcpy(static_cast<unsigned char*>(given) + field.offset,
                static_cast<const unsigned char*>(known) + field.offset, field.size);
  }
}

}  // namespace tandem::c_api

#include "compiler/calibration/calibration_input.h"

#include <algorithm>

#include "artifact/reader.h"
#include "base/error.h"
#include "base/format.h"
#include "base/mapped_file.h"
#include "chat/chat_template.h"
#include "chat/conversations.h"

namespace tandem {
namespace {

constexpr uint64_t kTextLimit = uint64_t{1} << 30;

using Samples = std::vector<std::vector<int32_t>>;

// Windows spread evenly over a long text.
Samples cut(const std::vector<int32_t>& tokens, int64_t samples, int64_t length) {
  Samples parts;
  const auto total = static_cast<int64_t>(tokens.size());
  const int64_t count = std::min(samples, std::max<int64_t>(total / length, 1));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t begin = count == 1 ? 0 : (total - length) * i / (count - 1);
    const int64_t end = std::min(begin + length, total);
    parts.emplace_back(tokens.begin() + begin, tokens.begin() + end);
  }
  return parts;
}

Result<std::unique_ptr<ChatTemplate>> template_of(const CompileJob& job) {
  return make_chat_template(chat_template_source(job.checkpoint().tokenizer_config()), &*job.tokenizer());
}

Result<Samples> from_conversations(const CompileJob& job, const CalibrationOptions& options, int64_t length) {
  TANDEM_ASSIGN(const std::vector<Conversation> conversations, read_conversations(options.file));
  TANDEM_ASSIGN(const auto chat, template_of(job));
  Samples samples;
  const auto total = static_cast<int64_t>(conversations.size());
  const int64_t count = std::min(options.samples, total);
  for (int64_t i = 0; i < count; ++i) {
    TANDEM_ASSIGN(const std::string text, chat->render(conversations[static_cast<size_t>(total * i / count)], false));
    TANDEM_ASSIGN(std::vector<int32_t> tokens, job.tokenizer()->encode(text, false));
    if (static_cast<int64_t>(tokens.size()) > length) tokens.resize(static_cast<size_t>(length));
    samples.push_back(std::move(tokens));
  }
  return samples;
}

// Our built-in short text, plain and as a conversation where the model has a chat template.
Result<Samples> own_samples(const CompileJob& job, int64_t length) {
  Samples samples = {job.sample_tokens(static_cast<size_t>(length))};
  if (!job.tokenizer()) return samples;
  const auto chat = template_of(job);
  if (!chat.ok()) return samples;
  const Conversation talk = {
      {"user", "Tell me a story about a small boat, please."},
      {"assistant",
       "Once there was a small boat that wanted to see the sea. One day it met a bird, and the bird showed "
       "it the way. They were happy, and they came home in the evening."},
      {"user", "Where did they come in the evening?"},
      {"assistant", "They came home."}};
  const auto text = (*chat)->render(talk, false);
  if (!text.ok()) return samples;  // The template may refuse this conversation.
  TANDEM_ASSIGN(std::vector<int32_t> tokens, job.tokenizer()->encode(*text, false));
  if (static_cast<int64_t>(tokens.size()) > length) tokens.resize(static_cast<size_t>(length));
  samples.push_back(std::move(tokens));
  return samples;
}

}  // namespace

std::string_view calibration_text_field_of(const CalibrationOptions& options) {
  const CalibrationOptions usual;
  if (!options.file.empty()) return "`calibration.file`";
  if (!options.prompt.empty()) return "`calibration.prompt`";
  if (options.samples != usual.samples) return "`calibration.samples`";
  if (options.length != usual.length) return "`calibration.length`";
  return {};
}

std::string_view encodings_field_of(const CalibrationOptions& options) {
  if (options.method_given) return "`calibration.range`";
  if (!options.import_encodings.empty()) return "`calibration.import_encodings`";
  if (!options.export_encodings.empty()) return "`calibration.export_encodings`";
  return {};
}

Status check_calibration(const CalibrationOptions& options, const Recipe& recipe, bool is_calibrated) {
  if (!options.file.empty() && !options.prompt.empty()) {
    return invalid_argument(
        "`calibration.file` and `calibration.prompt` both say what to calibrate with; leave one out");
  }
  if (is_calibrated) return ok_status();
  const std::string_view text = calibration_text_field_of(options);
  const std::string_view field = text.empty() ? encodings_field_of(options) : text;
  if (field.empty()) return ok_status();
  return invalid_argument("the recipe {} computes in fp16 and needs no calibration; leave {} out", recipe.name, field);
}

Result<Samples> read_calibration_samples(const CompileJob& job) {
  const CalibrationOptions& options = job.options().calibration;
  if (options.samples < 1 || options.length < 1) {
    return invalid_argument("calibration needs one sample of one token at least; give larger numbers");
  }
  const int64_t length = std::min(options.length, job.context());
  const bool given = !options.file.empty() || !options.prompt.empty();
  if (given && !job.tokenizer()) {
    return unsupported("calibration with a text needs the checkpoint's tokenizer, which it lacks; leave it out");
  }
  Samples samples;
  if (!options.prompt.empty()) {
    TANDEM_ASSIGN(const std::vector<int32_t> tokens, job.tokenizer()->encode(options.prompt, true));
    samples = cut(tokens, options.samples, length);
  } else if (options.file.extension() == ".json") {
    TANDEM_ASSIGN(samples, from_conversations(job, options, length));
  } else if (!options.file.empty()) {
    TANDEM_ASSIGN(const std::string text, read_text_file(options.file, kTextLimit));
    TANDEM_ASSIGN(const std::vector<int32_t> tokens, job.tokenizer()->encode(text, true));
    samples = cut(tokens, options.samples, length);
  } else {
    TANDEM_ASSIGN(samples, own_samples(job, length));
  }
  for (auto& sample : samples) {
    std::erase_if(sample, [&](int32_t token) { return token < 0 || token >= job.plan().vocab_size; });
  }
  std::erase_if(samples, [](const auto& sample) { return sample.empty(); });
  if (samples.empty()) return invalid_argument("{}: there is no text to calibrate with", options.file.string());
  return samples;
}

Result<std::string> calibration_key(const CalibrationOptions& options) {
  std::string files = options.import_encodings.string();
  for (const auto& file : {options.file, options.import_encodings}) {
    if (file.empty()) continue;
    TANDEM_ASSIGN(const std::string text, read_text_file(file, kTextLimit));
    files += str_format(" {:016x}", hash_bytes({reinterpret_cast<const uint8_t*>(text.data()), text.size()}));
  }
  return str_format("calib [{}] {} {} {} {}{}", files, options.prompt, options.samples, options.length,
                    range_method_name(options.method), options.method_given ? " for all" : "");
}

}  // namespace tandem

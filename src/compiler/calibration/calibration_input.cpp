#include "compiler/calibration/calibration_input.h"

#include <algorithm>
#include <numeric>

#include "artifact/reader.h"
#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "chat/chat_template.h"
#include "chat/conversations.h"
#include "tasks/task.h"
#include "weights/streaming_weights.h"

namespace tandem {
namespace {

constexpr uint64_t kTextLimit = uint64_t{1} << 30;
constexpr std::string_view kSampledSource = "sampled from the model";
// Sampled texts are not made shorter than this to save time: attention needs something to look back at.
constexpr int64_t kShortestSample = 128;

struct Amount {
  int64_t samples = 0, length = 0;
  int64_t tokens() const { return samples * length; }
};

Amount amount_of(const CompileJob& job, const CalibrationNeeds& needs, bool is_sampled) {
  const CalibrationOptions& options = job.options().calibration;
  const CalibrationOptions usual;
  int64_t length = std::min(options.length, job.context());
  if (job.plan().max_positions > 0) length = std::min(length, job.plan().max_positions);
  if (options.samples != usual.samples || options.length != usual.length) return {options.samples, length};
  const int64_t budget =
      needs.tokens > 0 ? needs.tokens : std::min(affordable_tokens(job.plan()), options.samples * length);
  // Many sequences decode together in the time of a few, so sampled ones become shorter before they become fewer.
  if (is_sampled) length = std::clamp(budget / options.samples, std::min(kShortestSample, length), length);
  const int64_t samples = std::max<int64_t>((budget + length - 1) / length, 1);
  return {needs.tokens > 0 ? samples : std::min(samples, options.samples), length};
}

// Windows spread evenly over a long text.
TokenSamples cut(const std::vector<int32_t>& tokens, const Amount& amount) {
  TokenSamples parts;
  const auto total = static_cast<int64_t>(tokens.size());
  const int64_t length = amount.length;
  const int64_t count = std::min(amount.samples, std::max<int64_t>(total / length, 1));
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

// Texts one after the other, in samples of the full length; of many texts, some from everywhere. `encode` gives the
// tokens of text i.
template <typename Encode>
Result<TokenSamples> pack(size_t texts, const Amount& amount, Encode&& encode) {
  TokenSamples samples;
  int64_t left = amount.tokens();
  // Steps of the golden ratio of the number of texts reach all of them, in an order that is spread at any time.
  auto step = static_cast<size_t>(0.618 * static_cast<double>(texts));
  while (step > 1 && std::gcd(step, texts) != 1) --step;
  step = std::max<size_t>(step, 1);
  for (size_t i = 0, at = 0; i < texts && left > 0; ++i, at = (at + step) % texts) {
    TANDEM_ASSIGN(const std::vector<int32_t> tokens, encode(at));
    for (const int32_t token : std::span(tokens).first(std::min(tokens.size(), static_cast<size_t>(left)))) {
      if (samples.empty() || static_cast<int64_t>(samples.back().size()) == amount.length) samples.emplace_back();
      samples.back().push_back(token);
      --left;
    }
  }
  return samples;
}

Result<TokenSamples> from_conversations(const CompileJob& job, const std::filesystem::path& file,
                                        const Amount& amount) {
  TANDEM_ASSIGN(const std::vector<Conversation> conversations, read_conversations(file));
  TANDEM_ASSIGN(const auto chat, template_of(job));
  return pack(conversations.size(), amount, [&](size_t i) -> Result<std::vector<int32_t>> {
    TANDEM_ASSIGN(const std::string text, chat->render(conversations[i], false));
    return job.tokenizer()->encode(text, false);
  });
}

Result<TokenSamples> from_task(const CompileJob& job, const Task& task, const Amount& amount) {
  const std::vector<std::string> texts = task_texts(task);
  return pack(texts.size(), amount, [&](size_t i) { return job.tokenizer()->encode(texts[i], true); });
}

// Where the tokenizer adds nothing to a text, the configuration may still say how texts begin.
std::optional<int32_t> begin_token(const CompileJob& job) {
  const auto is_usable = [&](int64_t id) { return id >= 0 && id < job.plan().vocab_size; };
  if (job.tokenizer()) {
    const auto empty = job.tokenizer()->encode("", true);
    if (empty.ok() && !empty->empty() && is_usable(empty->front())) return empty->front();
  }
  const auto& id = job.checkpoint().generation().bos_token_id;
  return id && is_usable(*id) ? std::optional(static_cast<int32_t>(*id)) : std::nullopt;
}

// What the chat template writes around a user's message. Nothing if there is no template, or it is not that simple.
void add_chat_tokens(const CompileJob& job, DocumentTokens& documents) {
  constexpr std::string_view kMessage = "MESSAGE";
  if (!job.tokenizer()) return;
  const auto chat = template_of(job);
  if (!chat.ok()) return;
  const auto text = (*chat)->render(Conversation{{"user", std::string(kMessage)}}, true);
  if (!text.ok()) return;
  const size_t at = text->find(kMessage);
  if (at == std::string::npos || text->find(kMessage, at + 1) != std::string::npos) return;
  const auto before = job.tokenizer()->encode(text->substr(0, at), false);
  const auto after = job.tokenizer()->encode(text->substr(at + kMessage.size()), false);
  if (!before.ok() || !after.ok() || before->empty()) return;
  const auto is_usable = [&](int32_t token) { return token >= 0 && token < documents.vocabulary; };
  if (!std::ranges::all_of(*before, is_usable) || !std::ranges::all_of(*after, is_usable)) return;
  documents.user = *before;
  // The model itself ends a message, if its template does so with an end token.
  const auto end = std::ranges::find_first_of(*after, documents.end);
  if (end != after->end()) documents.assistant.assign(end + 1, after->end());
}

DocumentTokens document_tokens(const CompileJob& job, int64_t samples) {
  DocumentTokens documents;
  documents.begin = begin_token(job);
  documents.vocabulary = job.plan().vocab_size;
  if (job.tokenizer()) documents.vocabulary = std::min<int64_t>(documents.vocabulary, job.tokenizer()->vocab_size());
  for (const int64_t id : job.checkpoint().generation().eos_token_ids) {
    if (id >= 0 && id < job.plan().vocab_size) documents.end.push_back(static_cast<int32_t>(id));
  }
  for (int64_t i = 0; i < samples; ++i) {  // Spread over the vocabulary.
    documents.first.push_back(static_cast<int32_t>((2 * i + 1) * documents.vocabulary / (2 * samples)));
  }
  add_chat_tokens(job, documents);
  return documents;
}

constexpr const char* kSamplesName = "samples";  // In the work folder.

std::optional<TokenSamples> saved_samples(const CalibrationNeeds& needs, const Amount& amount, int64_t vocabulary) {
  const FinishedSegment* saved = needs.work == nullptr ? nullptr : needs.work->find(kSamplesName, needs.source);
  if (saved == nullptr) return std::nullopt;
  const auto json = parse_json(saved->note, kSamplesName);
  if (!json.ok() || !json->is_array() || json->size() != static_cast<size_t>(amount.samples)) return std::nullopt;
  TokenSamples samples;
  for (const Json& item : *json) {
    if (!item.is_array() || item.size() != static_cast<size_t>(amount.length)) return std::nullopt;
    auto& sample = samples.emplace_back();
    for (const Json& token : item) {
      if (!token.is_number_integer() || token < 0 || token >= vocabulary) return std::nullopt;
      sample.push_back(token.get<int32_t>());
    }
  }
  return samples;
}

Result<TokenSamples> from_model(const CompileJob& job, ThreadPool& pool, const CalibrationNeeds& needs,
                                const Amount& amount) {
  if (auto saved = saved_samples(needs, amount, job.plan().vocab_size)) return *std::move(saved);
  // Every step reads all weights: mapping them anew each time takes longer than computing with those of a small model.
  constexpr int64_t kMostKept = int64_t{1} << 30;  // Parameters, of two or four bytes.
  const bool is_kept = job.plan().parameters <= kMostKept;
  const StreamingWeights streaming(job.weights(), job.plan());
  const SelfSampling sampling{.plan = job.plan(),
                              .weights = is_kept ? static_cast<const WeightProvider&>(job.weights()) : streaming,
                              .documents = document_tokens(job, amount.samples),
                              .samples = amount.samples,
                              .length = amount.length,
                              .progress = job.options().progress,
                              .stop = job.options().stop};
  TANDEM_ASSIGN(TokenSamples samples, sample_from_model(sampling, pool));
  for (const WeightSource& weight : job.plan().weights) job.weights().release_rows(weight, 0, weight.rows);
  if (needs.work != nullptr) {
    FinishedSegment saved;
    saved.source = needs.source;
    saved.note = dump_json(Json(samples));
    TANDEM_TRY(needs.work->add(kSamplesName, saved));
  }
  return samples;
}

// The samples of whatever the options name.
Result<CalibrationData> read_data(const CompileJob& job, ThreadPool& pool, const CalibrationNeeds& needs) {
  const CalibrationOptions& options = job.options().calibration;
  const bool is_given = !options.file.empty() || !options.prompt.empty();
  const Amount amount = amount_of(job, needs, !is_given);
  CalibrationData data;
  if (!is_given) {
    data.source = kSampledSource;
    TANDEM_ASSIGN(data.samples, from_model(job, pool, needs, amount));
    return data;
  }
  if (!options.prompt.empty()) {
    data.source = "a prompt";
    TANDEM_ASSIGN(const std::vector<int32_t> tokens, job.tokenizer()->encode(options.prompt, true));
    data.samples = cut(tokens, amount);
    return data;
  }
  data.source = options.file.filename().string();
  TANDEM_ASSIGN(const std::string text, read_text_file(options.file, kTextLimit));
  data.file_hash = hash_bytes({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  if (!options.task.empty()) {
    data.task = options.task;
    TANDEM_ASSIGN(const Task task, parse_task(options.task, text, options.file, 0));
    TANDEM_ASSIGN(data.samples, from_task(job, task, amount));
  } else if (options.file.extension() == ".json") {
    TANDEM_ASSIGN(data.samples, from_conversations(job, options.file, amount));
  } else {
    TANDEM_ASSIGN(const std::vector<int32_t> tokens, job.tokenizer()->encode(text, true));
    data.samples = cut(tokens, amount);
  }
  return data;
}

}  // namespace

std::string_view calibration_text_field_of(const CalibrationOptions& options) {
  const CalibrationOptions usual;
  if (!options.file.empty()) return "`calibration.file`";
  if (!options.prompt.empty()) return "`calibration.prompt`";
  if (!options.task.empty()) return "`calibration.task`";
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

Status check_calibration(const CalibrationOptions& options, const Recipe& recipe, bool is_calibrated,
                         bool tunes_weights) {
  if (!options.file.empty() && !options.prompt.empty()) {
    return invalid_argument(
        "`calibration.file` and `calibration.prompt` both say what to calibrate with; leave one out");
  }
  if (!options.task.empty()) {
    TANDEM_TRY(check_task_name(options.task));
    if (options.file.empty()) {
      return invalid_argument("`calibration.task` says how to read `calibration.file`; give that as well");
    }
  }
  if (!options.import_encodings.empty() && !tunes_weights) {
    if (const std::string_view text = calibration_text_field_of(options); !text.empty()) {
      return invalid_argument("`calibration.import_encodings` takes the place of calibrating; leave {} out", text);
    }
  }
  if (is_calibrated) return ok_status();
  const std::string_view text = tunes_weights ? std::string_view() : calibration_text_field_of(options);
  const std::string_view field = text.empty() ? encodings_field_of(options) : text;
  if (field.empty()) return ok_status();
  return invalid_argument("the recipe {} computes in fp16 and needs no calibration; leave {} out", recipe.name, field);
}

bool CalibrationData::is_sampled() const { return source == kSampledSource; }

std::string CalibrationData::describe() const {
  const std::string amount =
      str_format("{} tokens in {} sample{}", tokens, samples.size(), samples.size() == 1 ? "" : "s");
  if (is_sampled()) return amount + ", " + source;
  return amount + " of " + source + (task.empty() ? "" : str_format(" ({})", task));
}

int64_t affordable_tokens(const ModelPlan& plan) {
  constexpr int64_t kOperations = 6'000'000'000'000;
  return std::clamp<int64_t>(kOperations / std::max<int64_t>(2 * plan.parameters, 1), 2048, 40960);
}

std::optional<std::string> warning_about_few_tokens(const CalibrationData& data, const ModelPlan& plan) {
  int64_t widest = 0;
  for (const WeightSource& weight : plan.weights) widest = std::max(widest, weight.cols);
  if (data.tokens >= widest) return std::nullopt;
  return str_format(
      "calibration saw {} tokens, fewer than the {} inputs of the widest layer; give more text, more "
      "`calibration.samples` or a larger `calibration.length`",
      data.tokens, widest);
}

Result<CalibrationData> read_calibration_samples(const CompileJob& job, ThreadPool& pool,
                                                 const CalibrationNeeds& needs) {
  const CalibrationOptions& options = job.options().calibration;
  if (options.samples < 1 || options.length < 1) {
    return invalid_argument("calibration needs one sample of one token at least; give larger numbers");
  }
  if ((!options.file.empty() || !options.prompt.empty()) && !job.tokenizer()) {
    return unsupported("calibration with a text needs the checkpoint's tokenizer, which it lacks; leave it out");
  }
  TANDEM_ASSIGN(CalibrationData data, read_data(job, pool, needs));
  for (auto& sample : data.samples) {
    std::erase_if(sample, [&](int32_t token) { return token < 0 || token >= job.plan().vocab_size; });
  }
  std::erase_if(data.samples, [](const auto& sample) { return sample.empty(); });
  if (data.samples.empty()) return invalid_argument("{}: there is no text to calibrate with", options.file.string());
  for (const auto& sample : data.samples) data.tokens += static_cast<int64_t>(sample.size());
  return data;
}

Result<std::string> calibration_key(const CalibrationOptions& options) {
  std::string files = options.import_encodings.string();
  for (const auto& file : {options.file, options.import_encodings}) {
    if (file.empty()) continue;
    TANDEM_ASSIGN(const std::string text, read_text_file(file, kTextLimit));
    files += str_format(" {:016x}", hash_bytes({reinterpret_cast<const uint8_t*>(text.data()), text.size()}));
  }
  return str_format("calib [{}] {} {} {} {} {}{}", files, options.task, options.prompt, options.samples, options.length,
                    range_method_name(options.method), options.method_given ? " for all" : "");
}

}  // namespace tandem

// The JSON form of recipes. Nothing in a recipe is ignored: an unknown key or value is an error that lists the possible
// ones.

#include <algorithm>
#include <filesystem>
#include <initializer_list>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "quant/recipe.h"

namespace tandem {
namespace {

constexpr uint64_t kMaxRecipeBytes = 1 << 20;
constexpr size_t kMaxRecipeName = 128;
constexpr size_t kMaxRules = 1024;

using Names = std::span<const std::string_view>;

constexpr std::string_view kKeys[] = {"name", "base", "weights", "embedding", "head",       "rules",  "activations",
                                      "kv",   "mask", "logits",  "rescore",   "fold_norms", "rotate", "equalize"};
constexpr std::string_view kSpecKeys[] = {"format", "block"};
constexpr std::string_view kRuleKeys[] = {"match", "format", "block", "activations"};
constexpr std::string_view kFormats[] = {"lpbq4", "int8", "fp16", "bf16", "fp32"};
constexpr std::string_view kKvFormats[] = {"fp32", "fp16", "u8", "u16"};
constexpr std::string_view kActivations[] = {"int8", "int16", "auto"};
constexpr std::string_view kMaskTypes[] = {"f32", "f16", "u16", "u8"};
constexpr std::string_view kLogitsTypes[] = {"f32", "f16", "u16"};
constexpr std::string_view kRotations[] = {"r1", "r2", "r3"};
constexpr std::string_view kEqualized[] = {"norms", "keys", "values", "mlp"};

// The number of characters to add, drop or change to turn a into b.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
    }
  }
  return row[b.size()];
}

// "; did you mean "fp16"?", or nothing.
std::string suggestion(std::string_view word, Names possible) {
  if (word.empty() || word.size() > 32) return {};
  std::string_view best;
  size_t best_distance = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string_view name : possible) {
    // Other tools' names for our only 4-bit format.
    const bool alias =
        name == "lpbq4" && (word == "int4" || word == "i4" || word == "w4" || word == "lpbq" || word == "q4");
    const size_t distance = alias ? 0 : edit_distance(word, name);
    if (distance >= best_distance) continue;
    best = name;
    best_distance = distance;
  }
  return best.empty() ? std::string() : str_format("; did you mean \"{}\"?", best);
}

// Cuts long text from a file for messages.
std::string quoted(std::string_view text) {
  constexpr size_t kMax = 64;
  if (text.size() <= kMax) return str_format("\"{}\"", text);
  size_t end = kMax;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // Not inside a character.
  return str_format("\"{}...\"", text.substr(0, end));
}

Error unknown(std::string_view what, std::string_view word, Names possible) {
  return invalid_argument("recipe: unknown {} {} (possible: {}){}", what, quoted(word), str_join(possible, ", "),
                          suggestion(word, possible));
}

Status check_keys(const Json& object, std::string_view where, Names possible) {
  if (!object.is_object())
    return invalid_argument("recipe: {} should be an object, but is {}", where, object.type_name());
  for (const auto& [key, value] : object.items()) {
    if (std::find(possible.begin(), possible.end(), key) == possible.end()) {
      return unknown(str_format("key in {}:", where), key, possible);
    }
  }
  return ok_status();
}

Result<std::string> text_of(const Json& value, std::string_view where) {
  if (!value.is_string()) return invalid_argument("recipe: {} should be a string, but is {}", where, value.type_name());
  return value.get<std::string>();
}

// One of the possible words.
Result<std::string> word_of(const Json& value, std::string_view where, Names possible) {
  TANDEM_ASSIGN(std::string word, text_of(value, where));
  if (std::find(possible.begin(), possible.end(), word) == possible.end()) {
    return unknown(str_format("value of {}:", where), word, possible);
  }
  return word;
}

Result<ActivationFormat> activations_of(const Json& value, std::string_view where) {
  TANDEM_ASSIGN(const std::string word, word_of(value, where, kActivations));
  return parse_activation_format(word);
}

// {"format": "lpbq4", "block": 32}; the keys were checked before.
Result<WeightSpec> spec_from_object(const Json& object, std::string_view where) {
  const auto format = object.find("format");
  if (format == object.end()) {
    return invalid_argument("recipe: {} has no \"format\" (possible: {})", where, str_join(kFormats, ", "));
  }
  TANDEM_ASSIGN(const std::string name, word_of(*format, str_format("\"format\" in {}", where), kFormats));
  WeightSpec spec{*weight_format_from_name(name), 0};
  const bool has_blocks = spec.format == WeightFormat::kLpbq4;
  if (has_blocks) spec.block = WeightSpec().block;
  const auto block = object.find("block");
  if (block == object.end()) return spec;
  if (!has_blocks) {
    return invalid_argument("recipe: {} has a \"block\", but only lpbq4 has blocks, not {}", where, name);
  }
  if (!block->is_number_integer() || (*block != 16 && *block != 32 && *block != 64)) {
    return invalid_argument("recipe: \"block\" in {} is {} (possible: 16, 32, 64)", where,
                            block->is_primitive() ? dump_json(*block).substr(0, 64) : block->type_name());
  }
  spec.block = block->get<int>();
  return spec;
}

// An object, or just the name of a format.
Result<WeightSpec> spec_from_json(const Json& value, std::string_view where) {
  if (value.is_string()) return spec_from_object(Json{{"format", value}}, where);
  TANDEM_TRY(check_keys(value, where, kSpecKeys));
  return spec_from_object(value, where);
}

Result<std::vector<RecipeRule>> rules_from_json(const Json& list) {
  if (!list.is_array()) return invalid_argument("recipe: \"rules\" should be a list, but is {}", list.type_name());
  if (list.size() > kMaxRules) return invalid_argument("recipe: more than {} rules", kMaxRules);
  std::vector<RecipeRule> rules;
  for (const Json& item : list) {
    const std::string where = str_format("rule {}", rules.size() + 1);
    TANDEM_TRY(check_keys(item, where, kRuleKeys));
    const auto match = item.find("match");
    if (match == item.end()) {
      return invalid_argument("recipe: {} has no \"match\", such as \"layers.*.mlp.down\"", where);
    }
    TANDEM_ASSIGN(const std::string pattern, text_of(*match, str_format("\"match\" in {}", where)));
    auto glob = Glob::compile(pattern);
    if (!glob.ok()) return with_context(std::move(glob).error(), "recipe: {}", where);
    RecipeRule rule{std::move(glob).value(), {}};
    const auto activations = item.find("activations");
    if (activations != item.end()) {
      TANDEM_ASSIGN(rule.activations, activations_of(*activations, str_format("\"activations\" in {}", where)));
    }
    // A rule may be about activations only.
    if (activations == item.end() || item.contains("format") || item.contains("block")) {
      TANDEM_ASSIGN(rule.spec, spec_from_object(item, where));
    }
    rules.push_back(std::move(rule));
  }
  return rules;
}

// A list of words, each of which switches one of the flags on; those it does not name are switched off.
Status switches_from_json(const Json& list, std::string_view where, Names words, std::initializer_list<bool*> flags) {
  if (!list.is_array()) {
    return invalid_argument("recipe: {} should be a list of words (possible: {}), but is {}", where,
                            str_join(words, ", "), list.type_name());
  }
  for (bool* flag : flags) *flag = false;
  for (const Json& item : list) {
    TANDEM_ASSIGN(const std::string word, word_of(item, where, words));
    bool& flag = **(flags.begin() + (std::find(words.begin(), words.end(), word) - words.begin()));
    if (flag) return invalid_argument("recipe: {} has \"{}\" twice", where, word);
    flag = true;
  }
  return ok_status();
}

// One of the keys of transforms.
Status transform_from_json(std::string_view key, const Json& value, std::string_view where, Transforms& transforms) {
  if (key == "rotate") {
    return switches_from_json(value, where, kRotations,
                              {&transforms.rotate_residual, &transforms.rotate_values, &transforms.rotate_keys});
  }
  if (key == "equalize") {
    return switches_from_json(
        value, where, kEqualized,
        {&transforms.equalize_norms, &transforms.equalize_keys, &transforms.equalize_values, &transforms.equalize_mlp});
  }
  if (!value.is_boolean()) {
    return invalid_argument("recipe: {} should be true or false, but is {}", where, value.type_name());
  }
  transforms.fold_norms = value.get<bool>();
  return ok_status();
}

Json switches_to_json(Names words, std::initializer_list<bool> flags) {
  Json list = Json::array();
  size_t i = 0;
  for (const bool flag : flags) {
    if (flag) list.push_back(words[i]);
    ++i;
  }
  return list;
}

Json spec_to_json(const WeightSpec& spec) {
  Json json = {{"format", weight_format_name(spec.format)}};
  if (spec.format == WeightFormat::kLpbq4) json["block"] = spec.block;
  return json;
}

// What the recipe starts from: the preset that it names; or else its "weights", and the same for the embedding and the
// LM head, except that four bits are too few for those unless the recipe says so.
Result<Recipe> recipe_base(const Json& json) {
  if (const auto base = json.find("base"); base != json.end()) {
    TANDEM_ASSIGN(const std::string preset, word_of(*base, "\"base\"", recipe_presets()));
    Recipe recipe = *recipe_preset(preset);
    recipe.name = "custom";
    return recipe;
  }
  const auto weights = json.find("weights");
  if (weights == json.end()) {
    return invalid_argument("recipe: neither \"base\" (one of {}) nor \"weights\" is given",
                            str_join(recipe_presets(), ", "));
  }
  Recipe recipe;
  recipe.name = "custom";
  TANDEM_ASSIGN(recipe.weights, spec_from_json(*weights, "\"weights\""));
  if (recipe.weights.format != WeightFormat::kLpbq4) recipe.embedding = recipe.head = recipe.weights;
  return recipe;
}

}  // namespace

Result<KvFormat> parse_kv_format(std::string_view name) {
  if (const auto format = kv_format_from_name(name)) return *format;
  return invalid_argument("unknown KV format {} (possible: {}){}", quoted(name), str_join(kKvFormats, ", "),
                          suggestion(name, kKvFormats));
}

Result<ActivationFormat> parse_activation_format(std::string_view name) {
  const auto it = std::find(std::begin(kActivations), std::end(kActivations), name);
  if (it != std::end(kActivations)) return static_cast<ActivationFormat>(it - std::begin(kActivations));
  return invalid_argument("unknown format of activations {} (possible: {}){}", quoted(name),
                          str_join(kActivations, ", "), suggestion(name, kActivations));
}

Result<WeightSpec> parse_weight_spec(std::string_view format) {
  if (const auto known = weight_format_from_name(format)) {
    return WeightSpec{*known, *known == WeightFormat::kLpbq4 ? WeightSpec().block : 0};
  }
  return invalid_argument("unknown weight format {} (possible: {}){}", quoted(format), str_join(kFormats, ", "),
                          suggestion(format, kFormats));
}

Result<Recipe> Recipe::from_json(std::string_view text) {
  if (text.size() > kMaxRecipeBytes) return invalid_argument("recipe: larger than 1 MB");
  TANDEM_ASSIGN(const Json json, parse_json(text, "recipe"));
  TANDEM_TRY(check_keys(json, "the recipe", kKeys));
  TANDEM_ASSIGN(Recipe recipe, recipe_base(json));
  for (const auto& [key, value] : json.items()) {
    const std::string where = str_format("\"{}\"", key);
    if (key == "name") {
      TANDEM_ASSIGN(recipe.name, text_of(value, where));
      if (recipe.name.empty() || recipe.name.size() > kMaxRecipeName) {
        return invalid_argument("recipe: \"name\" should have 1 to {} characters", kMaxRecipeName);
      }
    } else if (key == "weights") {
      TANDEM_ASSIGN(recipe.weights, spec_from_json(value, where));
    } else if (key == "embedding") {
      TANDEM_ASSIGN(recipe.embedding, spec_from_json(value, where));
    } else if (key == "head") {
      TANDEM_ASSIGN(recipe.head, spec_from_json(value, where));
    } else if (key == "rules") {
      TANDEM_ASSIGN(recipe.rules, rules_from_json(value));
    } else if (key == "activations") {
      TANDEM_ASSIGN(recipe.activations, activations_of(value, where));
    } else if (key == "kv") {
      TANDEM_ASSIGN(const std::string word, word_of(value, where, kKvFormats));
      recipe.kv = *kv_format_from_name(word);
    } else if (key == "mask") {
      TANDEM_ASSIGN(const std::string word, word_of(value, where, kMaskTypes));
      recipe.mask = *dtype_from_name(word);
    } else if (key == "logits") {
      TANDEM_ASSIGN(const std::string word, word_of(value, where, kLogitsTypes));
      recipe.logits = *dtype_from_name(word);
    } else if (key == "rescore") {
      if (!value.is_number_integer() || value < 0 || value > kMaxRescore) {
        return invalid_argument("recipe: \"rescore\" is {}, and should be a number of logits from 0 to {}",
                                value.is_primitive() ? dump_json(value).substr(0, 64) : value.type_name(), kMaxRescore);
      }
      recipe.rescore = value.get<int>();
    } else if (key == "fold_norms" || key == "rotate" || key == "equalize") {
      TANDEM_TRY(transform_from_json(key, value, where, recipe.transforms));
    }
  }
  return recipe;
}

std::string Recipe::to_json() const {
  Json json;
  json["name"] = name;
  json["weights"] = spec_to_json(weights);
  json["embedding"] = spec_to_json(embedding);
  json["head"] = spec_to_json(head);
  json["rules"] = Json::array();
  for (const RecipeRule& rule : rules) {
    Json item = rule.spec ? spec_to_json(*rule.spec) : Json::object();
    item["match"] = rule.match.pattern();
    if (rule.activations) item["activations"] = activation_format_name(*rule.activations);
    json["rules"].push_back(std::move(item));
  }
  json["activations"] = activation_format_name(activations);
  json["kv"] = kv_format_name(kv);
  json["mask"] = dtype_name(mask);
  json["logits"] = dtype_name(logits);
  if (rescore) json["rescore"] = *rescore;
  const Transforms& t = transforms;
  json["fold_norms"] = t.fold_norms;
  json["rotate"] = switches_to_json(kRotations, {t.rotate_residual, t.rotate_values, t.rotate_keys});
  json["equalize"] =
      switches_to_json(kEqualized, {t.equalize_norms, t.equalize_keys, t.equalize_values, t.equalize_mlp});
  return dump_json(json, 2);
}

Result<Recipe> Recipe::load(std::string_view preset_or_json_path) {
  if (auto preset = recipe_preset(preset_or_json_path)) return *std::move(preset);
  const std::filesystem::path path(preset_or_json_path);
  std::error_code error;
  if (preset_or_json_path.empty() || !std::filesystem::exists(path, error)) {
    return not_found("recipe {} is neither a preset ({}) nor a file{}", quoted(preset_or_json_path),
                     str_join(recipe_presets(), ", "), suggestion(preset_or_json_path, recipe_presets()));
  }
  TANDEM_ASSIGN(const std::string text, read_text_file(path, kMaxRecipeBytes));
  auto recipe = from_json(text);
  if (!recipe.ok()) return with_context(std::move(recipe).error(), "{}", path.string());
  return recipe;
}

}  // namespace tandem

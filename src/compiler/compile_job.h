// What every compile does, whatever its target: opens the checkpoint, checks the request, reads the tokenizer, and
// describes the model in the file's header.
#pragma once

#include <optional>

#include "artifact/header.h"
#include "artifact/writer.h"
#include "base/json.h"
#include "base/thread_pool.h"
#include "compiler/calibration/calibration_data.h"
#include "compiler/compile.h"
#include "compiler/segment_plan.h"
#include "compiler/targets.h"
#include "compiler/work_folder.h"
#include "models/builder.h"
#include "tokenizer/import/tokenizer_files.h"
#include "tokenizer/tokenizer.h"
#include "weights/transformed_weights.h"
#include "weights/tuned_weights.h"

namespace tandem {

// A program and the files of its segments, ready to be assembled.
struct FinishedProgram {
  ArtifactHeader header;
  std::vector<SegmentFile> segments;
  WorkFolder work;  // Where the files are.
};

class CompileJob {
 public:
  // Everything that can be refused is refused here, before any work.
  static Result<std::unique_ptr<CompileJob>> open(const std::filesystem::path& folder,
                                                  const std::filesystem::path& output, const CompileOptions& options);

  const CompileOptions& options() const { return options_; }
  const std::filesystem::path& output() const { return output_; }
  const Target& target() const { return *target_; }
  const Checkpoint& checkpoint() const { return checkpoint_; }
  const ModelPlan& plan() const { return plan_; }
  // After the recipe's transforms: what is quantized.
  const TransformedWeights& weights() const { return *weights_; }
  // The recipe as resolved for this target.
  const Recipe& recipe() const { return recipe_; }
  // With the open choices resolved.
  void resolve_recipe(Recipe recipe) { recipe_ = std::move(recipe); }
  // Weights that were chosen with data, once they are there; empty if the recipe alone decides.
  const TunedWeights& tuned() const { return tuned_; }
  void set_tuned(TunedWeights tuned) { tuned_ = std::move(tuned); }
  // Of the bytes of all weights and vectors, read once: what tuned weights depend on, each on all layers before it.
  Result<uint64_t> checkpoint_hash();
  // Read or sampled when it is first needed; as much as the options need, all steps together.
  Result<const CalibrationData*> calibration_data(ThreadPool& pool, const CalibrationNeeds& needs = {});
  int64_t context() const { return context_; }
  const std::vector<MethodShape>& shapes() const { return shapes_; }
  const std::optional<Tokenizer>& tokenizer() const { return tokenizer_; }
  // As stored in the file; empty without one.
  std::vector<uint8_t> tokenizer_blob() const {
    return tokenizer_ ? serialize_tokenizer(*tokenizer_) : std::vector<uint8_t>();
  }
  CompileReport& report() { return report_; }

  bool stopped() const { return options_.stop && options_.stop(); }
  // A built-in short text as tokens, for models without a dataset.
  std::vector<int32_t> sample_tokens(size_t most) const;
  // Whether the disk has space for `bytes` of segments and the file made of them; an earlier run may have finished some
  // of the segments.
  Status check_disk(uint64_t bytes, uint64_t finished) const;
  // How the file is assembled, in the work folder.
  WriteOptions write_options(const std::filesystem::path& work_folder) const {
    return {work_folder, options_.force, [this] { return stopped(); }};
  }
  // Opens the work folder; `key` is everything that the segments depend on.
  Result<WorkFolder> open_work_folder(const std::string& key) const { return WorkFolder::open(output_, key, part()); }
  // Writes the file of finished segments and removes the work folder. If the file is for several targets, keeps both
  // for take_finished().
  Status finish(ArtifactHeader header, std::vector<SegmentFile> segments, WorkFolder work);
  // Only after a successful compile for one of several targets.
  FinishedProgram take_finished() { return *std::move(finished_); }
  // What the file says about its calibration, as JSON; "" if there was none.
  std::string calibration_record() const;
  // The same where an earlier run has read the data, and this one needs it no more.
  void restore_calibration(const WorkFolder& work, uint64_t source);
  // The header without methods, weights and shards.
  ArtifactHeader make_header(const FilePlan& file) const;

 private:
  CompileJob(Checkpoint checkpoint, const std::filesystem::path& output, const CompileOptions& options)
      : output_(output), options_(options), checkpoint_(std::move(checkpoint)), recipe_(options.recipe) {}

  // The target's name, if the file is for several.
  std::string part() const { return options_.other_targets.empty() ? std::string() : std::string(target_->name); }
  Status check_context();
  Status check_weights();
  Status resolve_transforms();
  Status check_outputs() const;
  Status read_tokenizer();
  TextInfo make_text(const FilePlan& file) const;

  std::filesystem::path output_;
  const CompileOptions& options_;
  Checkpoint checkpoint_;
  const Target* target_ = nullptr;
  ModelPlan plan_;
  std::unique_ptr<const TransformedWeights> weights_;
  Recipe recipe_;
  int64_t context_ = 0;
  std::vector<MethodShape> shapes_;
  std::optional<Tokenizer> tokenizer_;
  std::optional<uint64_t> checkpoint_hash_;
  std::optional<CalibrationData> calibration_;
  Json calibration_record_ = Json::object();
  TunedWeights tuned_;
  CompileReport report_;
  std::optional<FinishedProgram> finished_;
};

}  // namespace tandem

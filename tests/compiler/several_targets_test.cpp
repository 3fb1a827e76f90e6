// One file for several targets. tests/backends/qnn/compile/several_targets_npu_test.cpp has those with an NPU.
#include <gtest/gtest.h>

#include "artifact/reader.h"
#include "compiler/combine_programs.h"
#include "compiler/compile.h"
#include "support/compiled_model.h"
#include "tandem/probe.h"

namespace tandem {
namespace several_targets_test {

namespace fs = std::filesystem;

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

std::vector<std::string> names_in(const test::TempFolder& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder.path())) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

class SeveralTargets : public testing::Test {
 protected:
  CompileOptions options(const std::string& targets) const {
    CompileOptions options = test::to_options({.recipe = "w8", .context = 128});
    options.target = targets;
    return options;
  }
  fs::path compile_for(const std::string& targets) {
    const fs::path path = folder_ / (targets + ".tdm");
    const auto report = compile(test::demo_dir(), path, options(targets));
    EXPECT_TRUE(report.ok()) << (report.ok() ? "" : report.error().message);
    return path;
  }
  std::vector<int32_t> greedy_on(const fs::path& file, const std::string& run_on) {
    auto engine = Engine::load(file, {.threads = 2, .run_on = run_on});
    EXPECT_TRUE(engine.ok()) << (engine.ok() ? "" : engine.error().message);
    if (!engine.ok()) return {};
    return test::greedy(*test::new_session(**engine), std::vector<int32_t>{1, 5, 9, 300, 20, 7}, 24);
  }
  std::string refusal(const CompileOptions& options) {
    const auto report = compile(test::demo_dir(), folder_ / "refused.tdm", options);
    EXPECT_FALSE(report.ok());
    EXPECT_EQ(folder_.entries(), 0u) << "nothing was begun";
    return report.ok() ? std::string() : report.error().message;
  }

  const test::TempFolder folder_;
};

TEST_F(SeveralTargets, EachProgramGivesTheTokensOfAFileOfItsOwn) {
  const fs::path both = compile_for("cpu,reference");
  const std::vector<int32_t> cpu = greedy_on(compile_for("cpu"), "");
  ASSERT_EQ(cpu.size(), 24u);
  EXPECT_EQ(greedy_on(both, ""), cpu);
  EXPECT_EQ(greedy_on(both, "cpu"), cpu);
  EXPECT_EQ(greedy_on(both, "reference"), greedy_on(compile_for("reference"), "reference"));
}

TEST_F(SeveralTargets, ProgramsAreInTheGivenOrder) {
  const fs::path file = compile_for("reference,cpu");
  const auto artifact = Artifact::open(file);
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  ASSERT_EQ(artifact->program_count(), 2u);
  EXPECT_EQ(artifact->header().target, "reference");
  EXPECT_EQ(artifact->program(1).header().target, "cpu");
  EXPECT_EQ(artifact->program(1).program_count(), 1u);
  EXPECT_EQ((*Engine::load(file))->target(), "reference");
  EXPECT_EQ((*Engine::load(file, {.run_on = "cpu"}))->target(), "cpu");
  EXPECT_EQ((*Engine::load(file, {.run_on = "cpu"}))->backend(), "cpu");
}

TEST_F(SeveralTargets, WhatIsEqualIsStoredOnce) {
  const fs::path both = folder_ / "both.tdm";
  const auto report = compile(test::demo_dir(), both, options("cpu,reference"));
  ASSERT_TRUE(report.ok()) << report.error().message;
  ASSERT_EQ(report->programs.size(), 2u);
  EXPECT_EQ(report->programs[0].target, "cpu");
  EXPECT_EQ(report->programs[0].shared_bytes, 0u);
  EXPECT_EQ(report->programs[1].shared_bytes, report->programs[1].program_bytes);
  EXPECT_EQ(report->programs[1].program_bytes, report->programs[0].program_bytes);
  EXPECT_EQ(report->file_size, fs::file_size(both));
  const fs::path alone = compile_for("cpu");
  const auto one = Artifact::open(alone), two = Artifact::open(both);
  EXPECT_EQ(two->header().segments, one->header().segments) << "the second program adds graphs alone";
  EXPECT_EQ(two->program(0).header(), one->header());
  EXPECT_EQ(names_in(folder_), (std::vector<std::string>{"both.tdm", "cpu.tdm"})) << "no work folder is left";
}

TEST_F(SeveralTargets, AStoppedCompileGoesOn) {
  const fs::path output = folder_ / "model.tdm";
  bool stop = false;
  CompileOptions stopped = options("cpu,reference");
  uint64_t before = 0;
  stopped.progress = [&](const Progress& p) {
    EXPECT_GE(p.done, before) << p.stage;
    EXPECT_LE(p.done, p.total);
    before = p.done;
    stop = stop || p.stage == "reference: layers.2";
  };
  stopped.stop = [&] { return stop; };
  const auto report = compile(test::demo_dir(), output, stopped);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(names_in(folder_), (std::vector<std::string>{"model.tdm.cpu.work", "model.tdm.reference.work"}));
  const auto resumed = compile(test::demo_dir(), output, options("cpu,reference"));
  ASSERT_TRUE(resumed.ok()) << resumed.error().message;
  EXPECT_EQ(resumed->programs[0].segments_reused, 9u) << "all of it";
  EXPECT_EQ(resumed->programs[1].segments_reused, 3u) << "the embedding and two layers";
  EXPECT_EQ(names_in(folder_), std::vector<std::string>{"model.tdm"});
  EXPECT_TRUE(test::read_file(output) == test::read_file(compile_for("cpu,reference")));
}

TEST_F(SeveralTargets, StoppedWhileTheFileIsAssembled) {
  const fs::path output = folder_ / "model.tdm";
  bool stop = false;
  CompileOptions stopped = options("cpu,reference");
  stopped.progress = [&](const Progress& p) { stop = stop || p.stage == "writing the file"; };
  stopped.stop = [&] { return stop; };
  EXPECT_EQ(compile(test::demo_dir(), output, stopped).error().code, ErrorCode::kCancelled);
  EXPECT_FALSE(fs::exists(output));
  const auto resumed = compile(test::demo_dir(), output, options("cpu,reference"));
  ASSERT_TRUE(resumed.ok()) << resumed.error().message;
  EXPECT_EQ(resumed->programs[1].segments_reused, 9u);
  EXPECT_EQ(names_in(folder_), std::vector<std::string>{"model.tdm"});
}

TEST_F(SeveralTargets, ASecondCompileToTheSameFileIsRefused) {
  const fs::path output = folder_ / "model.tdm";
  CompileOptions first = options("cpu,reference");
  std::string refused;
  first.progress = [&](const Progress& p) {
    if (p.stage != "reference: layers.1" || !refused.empty()) return;
    for (const char* targets : {"cpu", "reference", "reference,cpu"}) {
      const auto second = compile(test::demo_dir(), output, options(targets));
      EXPECT_FALSE(second.ok()) << targets;
      if (!second.ok()) refused = second.error().message;
      EXPECT_TRUE(contains(refused, "another compile is writing")) << refused;
    }
  };
  EXPECT_TRUE(compile(test::demo_dir(), output, first).ok());
  EXPECT_FALSE(refused.empty());
  EXPECT_EQ(names_in(folder_), std::vector<std::string>{"model.tdm"});
}

TEST_F(SeveralTargets, RefusalsNameTheTarget) {
  EXPECT_TRUE(contains(refusal(options("cpu,abacus")), "\"abacus\" is unknown"));
  EXPECT_TRUE(contains(refusal(options("cpu,")), "target \"\" is unknown"));
  EXPECT_TRUE(contains(refusal(options("cpu,cpu")), "target cpu is there twice"));
  CompileOptions kv = options("cpu,sm8750");
  kv.kv = KvFormat::kFp16;
  EXPECT_TRUE(contains(refusal(kv), "target sm8750 keeps keys and values as"));
  kv.kv = KvFormat::kU16;
  EXPECT_TRUE(contains(refusal(kv), "target cpu cannot keep its KV cache as u16"));
  CompileOptions lengths = options("cpu,sm8750");
  lengths.prefill = {16};
  EXPECT_TRUE(contains(refusal(lengths), "target sm8750: methods of 16 tokens"));
}

TEST_F(SeveralTargets, AnOptionThatNoTargetObeysIsRefused) {
  CompileOptions rescored = options("cpu,reference");
  rescored.rescore = 64;
  EXPECT_TRUE(contains(refusal(rescored), "rescoring logits is for NPU targets"));
  CompileOptions emulated = options("cpu,reference");
  emulated.backend["emulator"] = "true";
  EXPECT_TRUE(contains(refusal(emulated), "`emulator` is for NPU targets"));
  CompileOptions calibrated = options("cpu,reference");
  calibrated.calibration.prompt = "One day";
  EXPECT_TRUE(contains(refusal(calibrated), "is for NPU targets"));
  CompileOptions twice = options("sm8650,sm8750,cpu");
  twice.calibration.report = folder_ / "report.html";
  EXPECT_TRUE(contains(refusal(twice), "would be written for several targets"));
}

TEST_F(SeveralTargets, AProgramThatTheFileLacksIsRefused) {
  const fs::path file = compile_for("cpu,reference");
  const auto engine = Engine::load(file, {.run_on = "sm8750"});
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(contains(engine.error().message, "the file is for cpu, reference")) << engine.error().message;
  const auto report = probe(file);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->backends.size(), 2u);
  EXPECT_EQ(probe(file, {.run_on = "reference"})->backends.size(), 1u);
  EXPECT_FALSE(probe(file, {.run_on = "sm8750"}).ok());
}

// ---- Sharing parts of segments ----

class CombinePrograms : public testing::Test {
 protected:
  // A program of one segment with these parts, as weights by their first byte's name.
  FinishedProgram program(const std::string& target, const std::vector<std::pair<uint64_t, uint8_t>>& parts) {
    ArtifactHeader header;
    header.target = target;
    std::vector<uint8_t> bytes;
    for (const auto& [size, value] : parts) {
      bytes.resize((bytes.size() + 63) / 64 * 64);
      WeightEntry entry;
      entry.name = std::string(1, static_cast<char>(value));
      entry.data = {0, bytes.size(), size};
      header.weights.push_back(entry);
      bytes.insert(bytes.end(), size, value);
    }
    auto work = WorkFolder::open(folder_ / "model.tdm", "key", target);
    EXPECT_TRUE(work.ok()) << work.error().message;
    const fs::path path = work->segment_path(0);
    test::write_file(path, bytes);
    return {std::move(header), {{"embedding", path, hash_bytes(bytes)}}, *std::move(work)};
  }
  // The value that a program's weight has throughout.
  static int value_of(const CombinedFile& file, const WeightEntry& weight) {
    const auto bytes = test::read_file(file.segments[weight.data.segment].path);
    for (uint64_t i = 0; i < weight.data.size; ++i) {
      if (bytes.at(weight.data.offset + i) != bytes.at(weight.data.offset)) return -1;
    }
    return bytes.at(weight.data.offset);
  }

  const test::TempFolder folder_;
};

TEST_F(CombinePrograms, APartThatIsStoredAlreadyIsLeftOut) {
  std::vector<FinishedProgram> programs;
  programs.push_back(program("one", {{5000, 'a'}, {6000, 'b'}}));
  programs.push_back(program("two", {{100, 'x'}, {6000, 'b'}, {7000, 'c'}, {100, 'a'}}));
  programs.push_back(program("three", {{7000, 'c'}, {6000, 'd'}}));
  const auto file = combine_programs(programs, {});
  ASSERT_TRUE(file.ok()) << file.error().message;
  ASSERT_EQ(file->segments.size(), 3u);
  EXPECT_EQ(file->segments[0].path, programs[0].segments[0].path) << "the first is unchanged";
  EXPECT_EQ(file->segments[1].name, "two/embedding");
  EXPECT_EQ(file->sizes[1].shared_bytes, 6000u);
  EXPECT_EQ(file->sizes[2].shared_bytes, 7000u);
  ASSERT_EQ(file->header.more_programs.size(), 2u);
  EXPECT_EQ(file->header.more_programs[0].weights[1].data.segment, 0u);
  EXPECT_EQ(file->header.more_programs[1].weights[0].data.segment, 1u);
  for (const ProgramHeader& more : file->header.more_programs) {
    for (const WeightEntry& weight : more.weights) {
      EXPECT_EQ(value_of(*file, weight), weight.name[0]) << more.target;
      EXPECT_EQ(weight.data.offset % kPartAlignment, 0u);
    }
  }
  for (const SegmentFile& segment : file->segments) {
    EXPECT_EQ(segment.hash, hash_bytes(test::read_file(segment.path)));
  }
  EXPECT_LT(fs::file_size(file->segments[1].path), 7500u);
}

TEST_F(CombinePrograms, EqualSizesAreNotEqualBytes) {
  std::vector<FinishedProgram> programs;
  programs.push_back(program("one", {{5000, 'a'}}));
  programs.push_back(program("two", {{5000, 'b'}}));
  const auto file = combine_programs(programs, {});
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->segments.size(), 2u);
  EXPECT_EQ(file->sizes[1].shared_bytes, 0u);
  EXPECT_EQ(value_of(*file, file->header.more_programs[0].weights[0]), 'b');
}

}  // namespace several_targets_test
}  // namespace tandem

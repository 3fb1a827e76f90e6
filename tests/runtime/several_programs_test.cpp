// An engine takes the first of a file's programs that works, and says why not the others.
#include <gtest/gtest.h>

#include <cstring>

#include "artifact/header_codec.h"
#include "artifact/limits.h"
#include "artifact/preamble.h"
#include "artifact/reader.h"
#include "support/compiled_model.h"
#include "tandem/probe.h"

namespace tandem {
namespace several_programs_test {

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

class SeveralPrograms : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new test::TempFolder;
    CompileOptions options = test::to_options({.recipe = "w8"});
    options.target = "cpu,reference";
    const auto report = compile(test::golden_dir("llama2"), file(), options);
    ASSERT_TRUE(report.ok()) << report.error().message;
  }
  static void TearDownTestSuite() { delete folder_; }
  static std::filesystem::path file() { return *folder_ / "both.tdm"; }

  // The file with another header and correct checksums.
  static std::filesystem::path changed(const std::function<void(ArtifactHeader&)>& change) {
    auto bytes = test::read_file(file());
    const auto artifact = Artifact::open(file());
    EXPECT_TRUE(artifact.ok());
    ArtifactHeader header = artifact->header();
    change(header);
    Preamble preamble;
    std::memcpy(&preamble, bytes.data(), sizeof(preamble));
    const std::vector<uint8_t> encoded = encode_header(header);
    bytes.resize(preamble.header_offset);
    bytes.insert(bytes.end(), encoded.begin(), encoded.end());
    preamble.file_size = bytes.size();
    preamble.header_size = encoded.size();
    preamble.header_hash = hash_bytes(encoded);
    const std::span<const uint8_t> first(reinterpret_cast<const uint8_t*>(&preamble), sizeof(preamble));
    preamble.preamble_hash = hash_bytes(first.first(sizeof(preamble) - sizeof(uint64_t)));
    std::memcpy(bytes.data(), &preamble, sizeof(preamble));
    test::write_file(*folder_ / "changed.tdm", bytes);
    return *folder_ / "changed.tdm";
  }

  Result<std::shared_ptr<Engine>> load(const std::filesystem::path& path, const std::string& run_on = {}) {
    EngineOptions options{.threads = 1, .run_on = run_on};
    options.log = [this](LogLevel level, std::string_view message) {
      if (level == LogLevel::kWarning) warnings_.emplace_back(message);
    };
    return Engine::load(path, options);
  }

  static test::TempFolder* folder_;
  std::vector<std::string> warnings_;
};
test::TempFolder* SeveralPrograms::folder_ = nullptr;

TEST_F(SeveralPrograms, TheFirstThatWorksIsTaken) {
  const auto first = load(file());
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_EQ((*first)->target(), "cpu");
  EXPECT_TRUE(warnings_.empty());
  const auto second = load(changed([](ArtifactHeader& header) { header.backend = "abacus"; }));
  ASSERT_TRUE(second.ok()) << second.error().message;
  EXPECT_EQ((*second)->target(), "reference");
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_TRUE(contains(warnings_[0], "runs on reference and not on cpu")) << warnings_[0];
  EXPECT_TRUE(contains(warnings_[0], "abacus")) << warnings_[0];
  EXPECT_EQ(test::greedy(*test::new_session(**second), std::vector<int32_t>{1, 2}, 3).size(), 3u);
}

TEST_F(SeveralPrograms, AForcedOneIsNotReplaced) {
  const auto path = changed([](ArtifactHeader& header) { header.backend = "abacus"; });
  const auto forced = load(path, "cpu");  // By its target; "abacus" by its back end.
  ASSERT_FALSE(forced.ok());
  EXPECT_TRUE(contains(forced.error().message, "abacus"));
  EXPECT_FALSE(load(path, "abacus").ok());
  EXPECT_TRUE(load(path, "reference").ok());
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(SeveralPrograms, IfNoneWorksTheErrorHasAllReasons) {
  const auto path = changed([](ArtifactHeader& header) {
    header.backend = "abacus";
    header.more_programs[0].backend = "slide rule";
  });
  const auto engine = load(path);
  ASSERT_FALSE(engine.ok());
  EXPECT_TRUE(contains(engine.error().message, "none of the file's programs can run here")) << engine.error().message;
  EXPECT_TRUE(contains(engine.error().message, "cpu: ") && contains(engine.error().message, "reference: "));
  EXPECT_TRUE(contains(engine.error().message, "abacus") && contains(engine.error().message, "slide rule"));
  EXPECT_EQ(engine.error().message.find('\n'), std::string::npos);
  const auto report = probe(path);
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_FALSE(report->usable);
  EXPECT_EQ(report->backends.size(), 2u);
}

TEST_F(SeveralPrograms, OptionsThatNoBackEndHasAreNoReasonToTryTheNext) {
  EngineOptions options;
  options.backend["nonsense"] = "1";
  const auto engine = Engine::load(file(), options);
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().code, ErrorCode::kInvalidArgument);
  EXPECT_FALSE(contains(engine.error().message, "none of the file's programs")) << engine.error().message;
}

TEST_F(SeveralPrograms, ReadersOfTheFirstProgramAloneFindAWholeFile) {
  // What a reader without the field sees.
  const auto path = changed([](ArtifactHeader& header) { header.more_programs.clear(); });
  const auto engine = load(path);
  ASSERT_TRUE(engine.ok()) << engine.error().message;
  EXPECT_EQ((*engine)->target(), "cpu");
  EXPECT_EQ(test::greedy(*test::new_session(**engine), std::vector<int32_t>{1, 2}, 3).size(), 3u);
}

TEST_F(SeveralPrograms, DamagedOnesAreRefusedWhenTheFileIsOpened) {
  const auto refuse = [](const std::function<void(ProgramHeader&)>& change) {
    const auto artifact = Artifact::open(changed([&](ArtifactHeader& header) { change(header.more_programs[0]); }));
    return artifact.ok() ? std::string() : artifact.error().message;
  };
  EXPECT_TRUE(contains(refuse([](ProgramHeader& p) { p.methods.clear(); }), "no methods"));
  EXPECT_TRUE(contains(refuse([](ProgramHeader& p) { p.weights.pop_back(); }), "needs the absent weight"));
  EXPECT_TRUE(contains(refuse([](ProgramHeader& p) { p.weights[0].data.segment = 99; }), "outside its segment"));
  EXPECT_TRUE(contains(refuse([](ProgramHeader& p) { p.weights[0].rows += 1; }), "is not what method"));
  EXPECT_TRUE(contains(refuse([](ProgramHeader& p) { p.weights.push_back(p.weights[0]); }), "two weights"));
  const auto many = Artifact::open(changed([](ArtifactHeader& header) {
    while (header.more_programs.size() < kMaxPrograms) header.more_programs.push_back(header.more_programs[0]);
  }));
  ASSERT_FALSE(many.ok());
  EXPECT_TRUE(contains(many.error().message, "further programs"));
}

}  // namespace several_programs_test
}  // namespace tandem

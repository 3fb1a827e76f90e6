#include "deploy/deploy_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>

#include "support/temp_folder.h"

namespace tandem {
namespace deploy_folder_test {

using test::TempFolder;
namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}
void write(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

DeployPlan plan_of(const std::vector<std::pair<std::string, std::string>>& files) {
  DeployPlan plan;
  for (const auto& [name, text] : files) {
    PlannedFile file;
    file.content = FileContent::own({text.begin(), text.end()});
    file.entry = {name, text.size(), *sha256_of(file.content, {}), "model", ""};
    file.is_program = name == "tandem";
    plan.manifest.files.push_back(file.entry);
    plan.files.push_back(std::move(file));
  }
  plan.manifest.model = files.front().first;
  return plan;
}

void expect_says(const Status& status, std::string_view part) {
  ASSERT_FALSE(status.ok()) << part;
  EXPECT_NE(status.error().message.find(part), std::string::npos) << status.error().message;
}

class DeployFolder : public testing::Test {
 protected:
  Result<DeployReport> deploy(const DeployPlan& plan) { return deploy_to_folder(plan, out_, options_); }
  DeployReport ok(const DeployPlan& plan) {
    auto report = deploy(plan);
    EXPECT_TRUE(report.ok()) << report.error().message;
    return std::move(report).value();
  }
  size_t entries() const { return static_cast<size_t>(std::distance(fs::directory_iterator(out_), {})); }

  TempFolder folder_;
  fs::path out_ = folder_ / "out";
  DeployOptions options_;
};

using Names = std::vector<std::string>;

TEST_F(DeployFolder, WritesOnlyWhatChanged) {
  EXPECT_EQ(ok(plan_of({{"a.tdm", "one"}, {"tandem", "program"}})).written, (Names{"a.tdm", "tandem"}));
  EXPECT_EQ(read(out_ / "a.tdm"), "one");
  struct stat info {};
  ASSERT_EQ(::stat((out_ / "tandem").c_str(), &info), 0);
  EXPECT_NE(info.st_mode & S_IXUSR, 0u);
  EXPECT_EQ(entries(), 3u);

  auto report = ok(plan_of({{"a.tdm", "two"}, {"tandem", "program"}}));
  EXPECT_EQ(report.written, Names{"a.tdm"});
  EXPECT_EQ(report.unchanged, Names{"tandem"});
  EXPECT_EQ(read(out_ / "a.tdm"), "two");

  report = ok(plan_of({{"b.tdm", "two"}}));
  EXPECT_EQ(report.removed, (Names{"a.tdm", "tandem"}));
  EXPECT_EQ(entries(), 2u);
  const auto manifest = Manifest::parse(read(out_ / kManifestName), "m");
  ASSERT_TRUE(manifest.ok());
  EXPECT_TRUE(manifest->complete);
  ASSERT_EQ(manifest->files.size(), 1u);
  EXPECT_EQ(manifest->files[0].name, "b.tdm");
}

TEST_F(DeployFolder, NothingOfOthersIsTouched) {
  fs::create_directory(out_);
  write(out_ / "notes.txt", "mine");
  write(out_ / "a.tdm", "mine too");
  expect_says(deploy(plan_of({{"a.tdm", "one"}})).status(), "a.tdm is there already");
  EXPECT_EQ(read(out_ / "a.tdm"), "mine too");
  EXPECT_EQ(entries(), 2u);

  ok(plan_of({{"b.tdm", "one"}}));
  EXPECT_EQ(read(out_ / "notes.txt"), "mine");
  write(out_ / "b.tdm", "two");  // By somebody else, since then; even of the same size.
  expect_says(deploy(plan_of({{"b.tdm", "new"}})).status(), "b.tdm is there already");
  EXPECT_EQ(ok(plan_of({{"c.tdm", "new"}})).removed, Names{});
  EXPECT_EQ(read(out_ / "b.tdm"), "two");

  fs::create_symlink(out_ / "notes.txt", out_ / "d.tdm");
  expect_says(deploy(plan_of({{"d.tdm", "new"}})).status(), "d.tdm is there already");
  fs::create_directory(out_ / "e.tdm");
  expect_says(deploy(plan_of({{"e.tdm", "new"}})).status(), "e.tdm is there already");
  EXPECT_EQ(read(out_ / "notes.txt"), "mine");
}

TEST_F(DeployFolder, AManifestOfOthersIsRefused) {
  fs::create_directory(out_);
  for (const char* text : {"", "{}", "[1]", "{\"made_by\": \"me\"}",
                           "{\"made_by\": \"tandem deploy\", \"version\": 1, \"files\": [{\"name\": \"../x\"}]}",
                           "{\"made_by\": \"tandem deploy\", \"version\": 99, \"files\": []}"}) {
    write(out_ / kManifestName, text);
    expect_says(deploy(plan_of({{"a.tdm", "one"}})).status(), "not of an earlier deployment");
    EXPECT_EQ(read(out_ / kManifestName), text);
  }
}

TEST_F(DeployFolder, PlacesThatAreNone) {
  write(folder_ / "file", "x");
  out_ = folder_ / "file";
  expect_says(deploy(plan_of({{"a.tdm", "one"}})).status(), "is a file");
  out_ = folder_ / "no/such";
  expect_says(deploy(plan_of({{"a.tdm", "one"}})).status(), "there is no folder");
  out_ = "";
  EXPECT_FALSE(deploy(plan_of({{"a.tdm", "one"}})).ok());
}

TEST_F(DeployFolder, ADryRunWritesNothing) {
  options_.dry_run = true;
  EXPECT_EQ(ok(plan_of({{"a.tdm", "one"}})).written, Names{"a.tdm"});
  EXPECT_FALSE(fs::exists(out_));
}

// Stopped at every point: no half file, and the next call completes it.
TEST_F(DeployFolder, AStoppedDeploymentGoesOn) {
  const auto first = plan_of({{"a.tdm", "one"}, {"b.so", "bee"}, {"old.so", "old"}});
  const auto second = plan_of({{"a.tdm", std::string(3 << 20, 'x')}, {"b.so", "cee"}});
  for (int stop_at = 1; stop_at < 12; ++stop_at) {
    out_ = folder_ / ("out" + std::to_string(stop_at));
    options_.stop = {};
    ok(first);
    int polls = 0;
    options_.stop = [&] { return ++polls >= stop_at; };
    const auto stopped = deploy(second);
    if (!stopped.ok()) {
      EXPECT_EQ(stopped.error().code, ErrorCode::kCancelled) << stopped.error().message;
      const std::string a = read(out_ / "a.tdm");
      EXPECT_TRUE(a == "one" || a.size() == 3 << 20) << a.size();
      EXPECT_EQ(entries(), 4u) << "a temporary file stays";
    }
    options_.stop = {};
    ok(second);
    EXPECT_EQ(read(out_ / "a.tdm").size(), size_t{3} << 20);
    EXPECT_EQ(read(out_ / "b.so"), "cee");
    EXPECT_FALSE(fs::exists(out_ / "old.so"));
    EXPECT_TRUE(Manifest::parse(read(out_ / kManifestName), "m")->complete);
  }
}

// What a killed process leaves.
TEST_F(DeployFolder, OldTemporaryFilesGo) {
  ok(plan_of({{"a.tdm", "one"}}));
  write(out_ / "a.tdm.0123456789abcdef.partial", "half");
  write(out_ / "other.0123456789abcdef.partial", "of others");
  ok(plan_of({{"a.tdm", "two"}}));
  EXPECT_FALSE(fs::exists(out_ / "a.tdm.0123456789abcdef.partial"));
  EXPECT_TRUE(fs::exists(out_ / "other.0123456789abcdef.partial"));
}

TEST(Manifest, RoundTripAndNames) {
  Manifest manifest = plan_of({{"a b'.tdm", "one"}, {"\xc3\xa4.so", "two"}}).manifest;
  manifest.complete = false;
  const auto parsed = Manifest::parse(manifest.to_text(), "m");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_FALSE(parsed->complete);
  ASSERT_EQ(parsed->files.size(), 2u);
  EXPECT_TRUE(parsed->files[0].is_same_content(manifest.files[0]));
  EXPECT_EQ(parsed->files[1].name, manifest.files[1].name);
  for (const char* name : {"", ".", "..", "a/b", "manifest.json", "a\nb"}) EXPECT_FALSE(is_plain_name(name)) << name;
  for (const char* name : {"a", "...", "-x", "a b"}) EXPECT_TRUE(is_plain_name(name)) << name;
}

}  // namespace deploy_folder_test
}  // namespace tandem

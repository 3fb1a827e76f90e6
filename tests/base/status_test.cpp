#include "tandem/status.h"

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/version.h"

namespace tandem {
namespace {

Result<int> half_of(int number) {
  if (number % 2 != 0) return invalid_argument("{} is odd; give an even number", number);
  return number / 2;
}

Result<int> quarter_of(int number) {
  TANDEM_ASSIGN(const int half, half_of(number));
  TANDEM_ASSIGN(const int quarter, half_of(half));
  return quarter;
}

Status check_quarter(int number) {
  TANDEM_TRY(quarter_of(number).status());
  return ok_status();
}

TEST(Status, CarriesAnErrorUp) {
  EXPECT_TRUE(check_quarter(8).ok());
  EXPECT_EQ(*quarter_of(8), 2);
  const auto result = quarter_of(6);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(result.error().message, "3 is odd; give an even number");
  const Status status = check_quarter(5);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message, "5 is odd; give an even number");
}

TEST(Status, ContextGoesInFront) {
  const Error error = with_context(not_found("no such tensor"), "layer {}", 3);
  EXPECT_EQ(error.message, "layer 3: no such tensor");
  EXPECT_EQ(error.code, ErrorCode::kNotFound);
}

TEST(Status, ResultsHoldWhatCannotBeCopied) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(7);
  ASSERT_TRUE(result.ok());
  const std::unique_ptr<int> value = std::move(result).value();
  EXPECT_EQ(*value, 7);
}

TEST(Status, EveryCodeHasItsOwnName) {
  std::set<std::string> names;
  for (int code = 0; code <= static_cast<int>(ErrorCode::kInternal); ++code) {
    EXPECT_TRUE(names.insert(error_code_name(static_cast<ErrorCode>(code))).second) << code;
  }
  EXPECT_EQ(names.count("unknown"), 0u);
}

TEST(Version, IsThatOfTheBuildFiles) {
  std::ifstream file(TANDEM_SOURCE_DIR "/CMakeLists.txt");
  std::stringstream text;
  text << file.rdbuf();
  const std::string content = text.str();
  const std::string wanted = "project(tandem VERSION " + std::string(kVersion) + " ";
  EXPECT_NE(content.find(wanted), std::string::npos) << "base/version.h says " << kVersion;
}

TEST(Status, ContextNamesAFileOnce) {
  const auto message = [](const char* text, const char* context) {
    return with_context(corrupt("{}", text), "{}", context).message;
  };
  EXPECT_EQ(message("is damaged", "a/flip.tdm"), "a/flip.tdm: is damaged");
  EXPECT_EQ(message("a/flip.tdm: is damaged", "a/flip.tdm"), "a/flip.tdm: is damaged");
  EXPECT_EQ(message("a/flip.tdm has no head", "a/flip.tdm"), "a/flip.tdm has no head");
  EXPECT_EQ(message("flip.tdm: is damaged", "a/flip.tdm"), "a/flip.tdm: is damaged");
  EXPECT_EQ(message("flip.tdm has no head", "a/flip.tdm"), "a/flip.tdm has no head");
  // Another file, and text that only looks alike.
  EXPECT_EQ(message("b.json: not JSON", "a/flip.tdm"), "a/flip.tdm: b.json: not JSON");
  EXPECT_EQ(message("flip.tdm2: is damaged", "a/flip.tdm"), "a/flip.tdm: flip.tdm2: is damaged");
  EXPECT_EQ(message(": odd", "folder/"), "folder/: : odd");
  EXPECT_EQ(message("a word", ""), ": a word");
}

}  // namespace
}  // namespace tandem

#include "tandem/status.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <cerrno>
#include <fstream>
#include <functional>
#include <memory>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/guarded.h"
#include "base/version.h"

namespace tandem {
namespace status_test {

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

TEST(Status, ContextIsPrefixed) {
  const Error error = with_context(not_found("no such tensor"), "layer {}", 3);
  EXPECT_EQ(error.message, "layer 3: no such tensor");
  EXPECT_EQ(error.code, ErrorCode::kNotFound);
}

TEST(Status, ResultsHoldMoveOnlyTypes) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(7);
  ASSERT_TRUE(result.ok());
  const std::unique_ptr<int> value = std::move(result).value();
  EXPECT_EQ(*value, 7);
}

// What the object does not hold is empty: no exception, nothing undefined.
TEST(Status, AccessingTheWrongAlternativeIsHarmless) {
  const Status good;
  EXPECT_EQ(good.error().code, ErrorCode::kInternal);
  EXPECT_EQ(good.error().message, "no error");
  // Behind a pointer: GCC 12 takes the text of an error that is not there for used where it sees all of it.
  const std::function<Status()> succeed = [] { return ok_status(); };
  EXPECT_EQ(succeed().error().message, "no error");
  Result<std::unique_ptr<int>> failed = not_found("nothing");
  EXPECT_EQ(failed.value(), nullptr);
  failed.value() = std::make_unique<int>(3);  // Written to nowhere.
  EXPECT_EQ(*failed, nullptr);
  EXPECT_EQ(std::as_const(failed).value(), nullptr);
  EXPECT_EQ(failed.error().message, "nothing");
  EXPECT_EQ(std::move(failed).value(), nullptr);
  const Result<std::string> text = not_found("nothing");
  EXPECT_TRUE(text->empty());
  Result<std::string> fine = std::string("fine");
  EXPECT_EQ(fine.error().message, "no error");
  EXPECT_TRUE(fine.status().ok());
  const std::string taken = std::move(fine).value();
  EXPECT_TRUE(fine.ok());  // NOLINT: moved from on purpose.
  EXPECT_EQ(taken, "fine");
}

TEST(Guarded, ExceptionsBecomeErrors) {
  const auto code_of = [](auto&& thrower) {
    const Result<int> result = guarded([&]() -> Result<int> { return thrower(); });
    EXPECT_FALSE(result.ok());
    EXPECT_FALSE(result.error().message.empty());
    return result.error().code;
  };
  EXPECT_EQ(code_of([]() -> int { throw std::bad_alloc(); }), ErrorCode::kResourceExhausted);
  EXPECT_EQ(code_of([]() -> int { throw std::length_error("too long"); }), ErrorCode::kResourceExhausted);
  EXPECT_EQ(code_of([]() -> int { throw std::system_error(EAGAIN, std::generic_category()); }),
            ErrorCode::kResourceExhausted);
  EXPECT_EQ(code_of([]() -> int { throw std::out_of_range("beyond"); }), ErrorCode::kInternal);
  EXPECT_EQ(code_of([]() -> int { throw 7; }), ErrorCode::kInternal);
  EXPECT_EQ(*guarded([]() -> Result<int> { return 7; }), 7);
  EXPECT_EQ(guarded_callback([]() -> int { throw 7; }).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(guarded_callback([]() -> int { throw std::logic_error("no pen"); }).error().message,
            "a callback threw an exception (no pen); let it return an error or false instead");
  EXPECT_THROW(guarded_callback([]() -> int { throw std::bad_alloc(); }).ok(), std::bad_alloc);
}

// pthread_cancel() and pthread_exit() unwind the stack; stopping that ends the process.
TEST(Guarded, LetsThreadCancellationThrough) {
  pthread_t thread;
  ASSERT_EQ(pthread_create(
                &thread, nullptr,
                [](void*) -> void* {
                  const Status status = guarded([]() -> Status {
                    pthread_exit(const_cast<char*>("ended"));
                    return ok_status();
                  });
                  return status.ok() ? nullptr : const_cast<char*>("stopped");
                },
                nullptr),
            0);
  void* result = nullptr;
  ASSERT_EQ(pthread_join(thread, &result), 0);
  EXPECT_STREQ(static_cast<const char*>(result), "ended");
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

}  // namespace status_test
}  // namespace tandem

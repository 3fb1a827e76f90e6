// Finding, loading and refusing libraries. Most tests use fake libraries and need no real one.
#include "backends/qnn/api/library.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdarg>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "backends/qnn/api/log.h"
#include "backends/qnn/api/qnn_support.h"
#include "support/temp_folder.h"

namespace tandem::qnn {
namespace library_test {

SearchOptions at(const std::string& path) {
  SearchOptions options;
  options.path = path;
  return options;
}

SearchOptions fake(const std::string& name) { return at(std::string(TANDEM_QNN_FAKES) + "/" + name); }

// Sets an environment variable for the length of a test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* const old = std::getenv(name)) old_ = old;
    value != nullptr ? ::setenv(name, value, 1) : ::unsetenv(name);
  }
  ~Variable() { old_ ? ::setenv(name_, old_->c_str(), 1) : ::unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

// Standard output goes to a file while this lives.
class StdoutToFile {
 public:
  explicit StdoutToFile(const std::filesystem::path& path) : path_(path) {
    std::fflush(stdout);
    saved_ = ::dup(STDOUT_FILENO);
    const int file = ::open(path.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
    ::dup2(file, STDOUT_FILENO);
    ::close(file);
  }
  ~StdoutToFile() { finish(); }
  std::string finish() {
    if (saved_ >= 0) {
      std::fflush(stdout);
      ::dup2(saved_, STDOUT_FILENO);
      ::close(std::exchange(saved_, -1));
    }
    const auto bytes = tandem::test::read_file(path_);
    return {bytes.begin(), bytes.end()};
  }

 private:
  std::filesystem::path path_;
  int saved_ = -1;
};

TEST(FindLibraries, SaysHowToGetThemWhenThereAreNone) {
  const Variable no_variable(kLibrariesVariable, nullptr);
  SearchOptions options;
  options.folders = {"/nonexistent/qnn"};
  options.python_packages = false;
  const auto found = find_libraries(options);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(test::says(found.error(), {"make qnn", "pip install onnxruntime-qnn", kLibrariesVariable}));
}

TEST(FindLibraries, AGivenPathIsNotPassedOver) {
  const auto found = find_libraries(at("/nonexistent/qnn"));
  ASSERT_FALSE(found.ok());
  EXPECT_TRUE(test::says(found.error(), {"/nonexistent/qnn", "make qnn"}));
}

TEST(FindLibraries, TheVariableIsNotPassedOver) {
  const Variable variable(kLibrariesVariable, "/nonexistent/qnn");
  const auto found = find_libraries();
  ASSERT_FALSE(found.ok());
  EXPECT_TRUE(test::says(found.error(), {"/nonexistent/qnn", kLibrariesVariable}));
}

TEST(FindLibraries, LooksIntoThePackagesFolderAndBesideForTheSystemLibrary) {
  const tandem::test::TempFolder folder;
  std::filesystem::create_directories(folder / "onnxruntime_qnn");
  tandem::test::write_file(folder / "onnxruntime_qnn/libQnnHtp.so", "x");
  const Variable variable(kLibrariesVariable, folder.path().c_str());
  auto found = find_libraries();
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(found->htp, (folder / "onnxruntime_qnn/libQnnHtp.so").string());
  EXPECT_EQ(found->system, "");
  EXPECT_EQ(found->found_by, kLibrariesVariable);
  tandem::test::write_file(folder / "onnxruntime_qnn/libQnnSystem.so", "x");
  found = find_libraries(at((folder / "onnxruntime_qnn/libQnnHtp.so").string()));
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(found->system, (folder / "onnxruntime_qnn/libQnnSystem.so").string());
}

// Only the package is installed: there is no python3 to ask for it.
class PythonPackages : public ::testing::Test {
 protected:
  std::string put(const std::string& place) {
    std::filesystem::create_directories(folder_ / place / "onnxruntime_qnn");
    tandem::test::write_file(folder_ / place / "onnxruntime_qnn/libQnnHtp.so", "x");
    return (folder_ / place / "onnxruntime_qnn/libQnnHtp.so").string();
  }
  static std::string find() {
    SearchOptions options;
    options.folders = {};
    const auto found = find_libraries(options);
    if (!found.ok()) return found.error().message;
    EXPECT_EQ(found->found_by, "the installed Python package");
    return found->htp;
  }

  const tandem::test::TempFolder folder_;
  const Variable no_variable_{kLibrariesVariable, nullptr};
  const Variable python_path_{"PYTHONPATH", nullptr};
  const Variable environment_{"VIRTUAL_ENV", nullptr};
  const Variable home_{"HOME", folder_.path().c_str()};
  const Variable path_{"PATH", "relative:/nonexistent"};
};

TEST_F(PythonPackages, InPythonsPathComeFirst) {
  const std::string expected = put("a b");
  put("venv/lib/python3.11/site-packages");
  const Variable python_path("PYTHONPATH", ("relative:" + (folder_ / "a b").string()).c_str());
  const Variable environment("VIRTUAL_ENV", (folder_ / "venv").c_str());
  EXPECT_EQ(find(), expected);
}

TEST_F(PythonPackages, OfAVirtualEnvironmentAreThoseOfTheNewestPython) {
  put("venv/lib/python3.9/site-packages");
  const std::string expected = put("venv/lib/python3.11/site-packages");
  const Variable environment("VIRTUAL_ENV", (folder_ / "venv").c_str());
  EXPECT_EQ(find(), expected);
}

TEST_F(PythonPackages, BesideAPythonInThePathAreFoundWithoutStartingIt) {
  const std::string expected = put("conda/lib/python3.12/site-packages");
  std::filesystem::create_directories(folder_ / "conda/bin");
  const std::string path = (folder_ / "conda/bin").string();
  const Variable with_path("PATH", path.c_str());
  EXPECT_NE(find(), expected) << "there is no python3";
  const auto started = folder_ / "started";
  tandem::test::write_file(folder_ / "conda/bin/python3", "#!/bin/sh\ntouch '" + started.string() + "'\n");
  std::filesystem::permissions(folder_ / "conda/bin/python3", std::filesystem::perms::owner_all);
  EXPECT_EQ(find(), expected);
  EXPECT_FALSE(std::filesystem::exists(started));
}

TEST_F(PythonPackages, OfTheUserAreFound) {
  const std::string expected = put(".local/lib/python3.10/site-packages");
  EXPECT_EQ(find(), expected);
}

TEST(LoadLibrary, RefusesAFileThatIsNoLibrary) {
  const tandem::test::TempFolder folder;
  tandem::test::write_file(folder / "libQnnHtp.so", "not an ELF file");
  const auto library = Library::load(at(folder.path().string()));
  ASSERT_FALSE(library.ok());
  EXPECT_EQ(library.error().code, ErrorCode::kIo);
  EXPECT_TRUE(test::says(library.error(), {"could not be loaded", "make qnn"}));
}

struct Refusal {
  const char* fake;
  const char* says;
};

class RefusedLibrary : public ::testing::TestWithParam<Refusal> {};

TEST_P(RefusedLibrary, InOneSentence) {
  const auto library = Library::load(fake(GetParam().fake));
  ASSERT_FALSE(library.ok());
  EXPECT_EQ(library.error().code, ErrorCode::kUnsupported);
  EXPECT_TRUE(test::says(library.error(), {GetParam().says}));
  EXPECT_TRUE(test::says(library.error(), {GetParam().fake})) << "the path";
}

INSTANTIATE_TEST_SUITE_P(Fakes, RefusedLibrary,
                         ::testing::Values(Refusal{"other_major", "has version 3.40.0 of QNN's core interface"},
                                           Refusal{"older_minor", "has version 2.26.0 of QNN's core interface"},
                                           Refusal{"older_htp", "has version 5.35.0 of QNN's HTP back end"},
                                           Refusal{"other_backend", "back end number 4, not HTP"},
                                           Refusal{"no_functions", "lacks functions"},
                                           Refusal{"no_symbol", "is not a QNN library"},
                                           Refusal{"no_provider", "offers no interface"},
                                           Refusal{"failing", "does not run on this platform"}),
                         [](const auto& test) { return std::string(test.param.fake); });

TEST(LoadLibrary, AWrongVersionSaysHowToGetTheRightOne) {
  const auto library = Library::load(fake("other_major"));
  ASSERT_FALSE(library.ok());
  EXPECT_TRUE(test::says(
      library.error(), {"needs 2.27 or a later 2.x, that of QAIRT 2.36", "make qnn", "pip install onnxruntime-qnn=="}));
}

TEST(LoadLibrary, TakesANewerMinorVersionAndReportsWhatFailsLater) {
  const auto library = Library::load(fake("newer_minor"));
  ASSERT_TRUE(library.ok()) << library.error().message;
  EXPECT_EQ(version_text((*library)->core_version()), "2.45.0");
  const auto system = (*library)->system();
  ASSERT_FALSE(system.ok());
  EXPECT_TRUE(test::says(system.error(), {"libQnnSystem.so is not beside"}));
  const auto backend = Backend::create(*library);
  ASSERT_FALSE(backend.ok());
  EXPECT_TRUE(test::says(backend.error(), {"starting QNN's log"}));
}

// Collects what it is given.
struct Collected {
  Log log(LogLevel finest = LogLevel::kWarning) {
    return Log([this](LogLevel, std::string_view message) { messages.emplace_back(message); }, finest);
  }
  std::vector<std::string> messages;
};

TEST(QnnLog, AScopeGetsWhatItsThreadSaysAndOpenLogsTheRest) {
  Collected first, second;
  const OpenLog open_first(first.log()), open_second(second.log());
  log_message(LogLevel::kWarning, "to all");
  {
    const LogScope scope(open_second.log());
    log_message(LogLevel::kWarning, "to the second");
    const LogScope inner(open_first.log());
    log_message(LogLevel::kWarning, "to the first");
    std::thread([] { log_message(LogLevel::kWarning, "of another thread"); }).join();
  }
  log_message(LogLevel::kInfo, "too fine for both");
  EXPECT_EQ(first.messages, (std::vector<std::string>{"to all", "to the first", "of another thread"}));
  EXPECT_EQ(second.messages, (std::vector<std::string>{"to all", "to the second", "of another thread"}));
}

TEST(QnnLog, TheLibrarysOwnWordsAreMarkedAndItsErrorsRemembered) {
  Collected collected, warnings;
  const OpenLog open(collected.log(LogLevel::kInfo)), open_warnings(warnings.log());
  const ErrorListener listener;
  const auto say = [](abi::LogLevel level, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    library_log_callback()(format, level, 0, arguments);
    va_end(arguments);
  };
  say(abi::LogLevel::kError, "no %s\n", "memory");
  say(abi::LogLevel::kWarning, " <W> Initializing");
  say(abi::LogLevel::kInfo, "a step of a call");
  EXPECT_EQ(collected.messages, (std::vector<std::string>{"QNN: no memory", "QNN: <W> Initializing"}));
  EXPECT_EQ(warnings.messages, std::vector<std::string>{"QNN: no memory"}) << "its warnings warn of nothing";
  EXPECT_EQ(listener.said(), "no memory");
}

TEST(QnnLog, WhatAnAppsFunctionThrowsIsDropped) {
  const OpenLog open(Log([](LogLevel, std::string_view) { throw std::runtime_error("no"); }));
  log_message(LogLevel::kError, "is thrown at");
}

TEST(StdoutCaptureTest, WhatALibraryPrintsAtLoadGoesToTheLog) {
  const tandem::test::TempFolder folder;
  // A copy, because a library prints only when it is loaded for the first time.
  std::filesystem::copy_file(std::string(TANDEM_QNN_FAKES) + "/older_minor/libQnnHtp.so", folder / "libQnnHtp.so");
  std::vector<std::string> messages;
  const OpenLog log(Log([&](LogLevel, std::string_view message) { messages.emplace_back(message); }, LogLevel::kInfo));
  StdoutToFile file(folder / "stdout.txt");
  std::printf("before ");
  const auto library = Library::load(at(folder.path().string()));
  std::printf("after");
  const std::string printed = file.finish();
  EXPECT_FALSE(library.ok());
  EXPECT_EQ(printed, "before after");
  EXPECT_EQ(messages, std::vector<std::string>{"QNN: FAKENATIVE loaded"});
}

TEST(StdoutCaptureTest, OverlappingCapturesOfSeveralThreadsRestoreStdout) {
  const tandem::test::TempFolder folder;
  std::mutex mutex;
  size_t caught = 0;
  const auto count = [&](LogLevel, std::string_view message) {
    const std::lock_guard lock(mutex);
    caught += message == "QNN: inside";
  };
  const OpenLog log(Log(count, LogLevel::kInfo));
  StdoutToFile file(folder / "stdout.txt");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 50; ++i) {
        const StdoutCapture capture;
        std::ignore = ::write(STDOUT_FILENO, "inside\n", 7);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::printf("outside\n");
  const std::string printed = file.finish();
  EXPECT_EQ(printed, "outside\n");
  EXPECT_EQ(caught, 200u);
}

TEST(StdoutCaptureTest, AClosedStdoutStaysClosed) {
  std::fflush(stdout);
  const int saved = ::dup(STDOUT_FILENO);
  ::close(STDOUT_FILENO);
  { const StdoutCapture capture; }
  const bool closed = ::fcntl(STDOUT_FILENO, F_GETFD) < 0;
  ::dup2(saved, STDOUT_FILENO);
  ::close(saved);
  EXPECT_TRUE(closed);
}

TEST(RealLibrary, LoadsQuietlyAndTellsItsVersions) {
  TANDEM_NEEDS_QNN();
  const Library& library = *test::qnn_library().value();
  std::printf("[ measured ] %s, core %s, HTP %s, build %s, found by %s\n", library.path().c_str(),
              version_text(library.core_version()).c_str(), version_text(library.htp_version()).c_str(),
              library.build_id().c_str(), library.found_by().c_str());
  EXPECT_EQ(library.core_version().major, kOldestCore.major);
  EXPECT_GE(library.core_version().minor, kOldestCore.minor);
  EXPECT_EQ(library.build_id().substr(0, 3), "v2.");
  EXPECT_TRUE(library.system().ok()) << library.system().error().message;
}

}  // namespace library_test
}  // namespace tandem::qnn

// Files that are truncated or overwritten while they are compiled or run. Each ends with an error message; where a page
// may be accessed after it is gone, only with the guard, in a separate process.
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "runtime/loaded_engine.h"
#include "support/compiled_model.h"
#include "support/in_child.h"
#include "tandem/mapping_guard.h"

namespace tandem {
namespace changed_file_test {

namespace fs = std::filesystem;
using test::in_child;
using test::TempFolder;

const std::vector<Message> kStory = {{"user", "Tell me a story about a fox named Leo."}};
constexpr const char* kSentence = "was changed or truncated while it was in use";

fs::path demo_copy(const TempFolder& folder) {
  fs::copy_file(test::compiled({.checkpoint = test::demo_dir(), .context = 512}), folder / "demo.tdm",
                fs::copy_options::overwrite_existing);
  return folder / "demo.tdm";
}

std::vector<int32_t> story(Engine& engine) {
  const auto result = test::new_session(engine)->generate_chat(kStory, {}, {});
  EXPECT_TRUE(result.ok()) << result.error().message;
  return result->tokens;
}

bool says_so(const Error& error) {
  const bool right = error.code == ErrorCode::kIo && error.message.find(kSentence) != std::string::npos;
  if (!right) std::fprintf(stderr, "%s: %s\n", error_code_name(error.code), error.message.c_str());
  return right;
}

TEST(ChangedFile, EveryCallSaysSo) {
  const TempFolder folder;
  const auto engine = test::load_engine(demo_copy(folder));
  const auto session = test::new_session(*engine), fresh = test::new_session(*engine);
  const std::vector<int32_t> wanted = story(*engine);
  ASSERT_TRUE(session->score(std::vector<int32_t>{5, 6, 7}, {}).ok());
  fs::resize_file(folder / "demo.tdm", 5000);
  EXPECT_TRUE(says_so(engine->encode("a fox", false).error()));
  EXPECT_TRUE(says_so(engine->decode(std::vector<int32_t>{5, 6}, true).error()));
  const auto later = test::new_session(*engine);
  for (Session* s : {session.get(), fresh.get(), later.get()}) {
    EXPECT_TRUE(says_so(s->score(std::vector<int32_t>{5}, {}).error()));
    EXPECT_TRUE(says_so(s->generate(std::vector<int32_t>{5}, {}, {}).error()));
    EXPECT_TRUE(says_so(s->generate_from(std::vector<int32_t>{5}, {}, {}).error()));
    EXPECT_TRUE(says_so(s->generate_chat(kStory, {}, {}).error()));
  }
  // Errors about the file's contents have another message; and once it is restored, everything works.
  EXPECT_FALSE(Engine::load(folder / "demo.tdm").ok());
  EXPECT_EQ(story(*test::load_engine(demo_copy(folder))), wanted);
}

TEST(ChangedFile, BeforeTheFirstTokenNothingOfItIsRead) {
  for (const VerifyWeights verify : {VerifyWeights::kOnFirstUse, VerifyWeights::kNever, VerifyWeights::kAtLoad}) {
    const TempFolder folder;
    auto engine = Engine::load(demo_copy(folder), {.threads = 2, .verify = verify});
    ASSERT_TRUE(engine.ok());
    const auto session = test::new_session(**engine);
    fs::resize_file(folder / "demo.tdm", 0);
    EXPECT_TRUE(says_so(session->generate(std::vector<int32_t>{5}, {}, {}).error()));
    EXPECT_TRUE(says_so(session->score(std::vector<int32_t>{5}, {}).error()));
    EXPECT_EQ(session->tokens().size(), 0u);
  }
}

TEST(ChangedFile, OverwritingInPlaceIsNoticedToo) {
  const TempFolder folder;
  const auto engine = test::load_engine(demo_copy(folder));
  const auto session = test::new_session(*engine);
  int pieces = 0;
  const auto result = session->generate_chat(kStory, {}, [&](std::string_view) {
    if (++pieces == 3) {
      demo_copy(folder);
      fs::last_write_time(folder / "demo.tdm", fs::last_write_time(folder / "demo.tdm") + std::chrono::seconds(1));
    }
    return true;
  });
  EXPECT_TRUE(says_so(result.error()));
  EXPECT_EQ(session->tokens().size(), 0u);
}

TEST(ChangedFile, TruncatedBetweenTwoTokens) {
  const TempFolder folder;
  const auto engine = test::load_engine(demo_copy(folder));
  const std::vector<int32_t> wanted = story(*engine);
  const auto session = test::new_session(*engine);
  int pieces = 0;
  const auto result = session->generate_chat(kStory, {}, [&](std::string_view) {
    if (++pieces == 3) fs::resize_file(folder / "demo.tdm", 0);
    return true;
  });
  EXPECT_TRUE(says_so(result.error()));
  EXPECT_EQ(pieces, 3) << "text of a file that had changed was shown";
  EXPECT_EQ(story(*test::load_engine(demo_copy(folder))), wanted);
}

TEST(ChangedFile, AFileReplacedByARenameGoesOn) {
  const TempFolder folder;
  const auto engine = test::load_engine(demo_copy(folder));
  const std::vector<int32_t> wanted = story(*engine);
  const auto session = test::new_session(*engine);
  const auto result = session->generate_chat(kStory, {}, [&](std::string_view) {
    test::write_file(folder / "new", "something else");
    fs::rename(folder / "new", folder / "demo.tdm");
    return true;
  });
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->tokens, wanted);
}

// At any moment: a correct answer or the error message.
TEST(ChangedFile, TruncatedInTheMiddleOfCallsWithTheGuard) {
  const TempFolder folder;
  const std::vector<int32_t> wanted = story(*test::load_engine(demo_copy(folder)));
  const fs::path path = folder / "demo.tdm";
  EXPECT_EQ(in_child([&] {
              if (!guard_file_mappings().ok()) return 1;
              int refused = 0;
              for (int round = 0; round < 40; ++round) {
                demo_copy(folder);
                auto engine = Engine::load(path, {.threads = 2, .verify = VerifyWeights::kNever});
                if (!engine.ok()) return 2;
                auto session = (*engine)->new_session();
                std::thread other([&] {
                  ::usleep(static_cast<useconds_t>(300 * round));
                  fs::resize_file(path, round % 2 == 0 ? 0 : fs::file_size(path) / 2);
                });
                const auto result = (*session)->generate_chat(kStory, {}, {});
                other.join();
                if (result.ok() && result->tokens != wanted) return 3;
                if (!result.ok() && !says_so(result.error())) return 4;
                refused += !result.ok();
                if (!says_so((*session)->generate_chat(kStory, {}, {}).error())) return 5;
              }
              demo_copy(folder);
              if (story(**Engine::load(path)) != wanted) return 6;
              return refused > 0 ? 0 : 7;
            }),
            "0");
}

// Checksums of the weights and loading itself, while the file changes back and forth.
TEST(ChangedFile, TruncatedWhileItIsLoadedWithTheGuard) {
  const TempFolder folder;
  const fs::path path = demo_copy(folder);
  const auto size = fs::file_size(path);
  EXPECT_EQ(in_child([&] {
              if (!guard_file_mappings().ok()) return 1;
              std::atomic<bool> done = false;
              std::thread other([&] {
                while (!done) {
                  fs::resize_file(path, 0);
                  fs::copy_file(test::compiled({.checkpoint = test::demo_dir(), .context = 512}), path,
                                fs::copy_options::overwrite_existing);
                  ::usleep(500);
                }
              });
              int failed = 0;
              for (int round = 0; round < 200; ++round) {
                const auto engine = Engine::load(path, {.threads = 2, .verify = VerifyWeights::kAtLoad});
                failed += !engine.ok();
              }
              done = true;
              other.join();
              return failed > 0 && fs::file_size(path) == size ? 0 : 2;
            }),
            "0");
}

}  // namespace changed_file_test
}  // namespace tandem

// The C interface from C++: the header compiles, and what callbacks throw ends at the border. And the log function, for
// which a CPU has no news.
#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "c_api/options.h"
#include "tandem/tandem.h"

namespace exceptions_test {

constexpr const char* kModel = TANDEM_SOURCE_DIR "/tests/data/artifact/v1.tdm";
const std::vector<int32_t> kPrompt = {142, 187, 174, 204, 268, 257, 108};

class CInterface : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(tandem_engine_load(kModel, nullptr, &engine_), TANDEM_OK) << tandem_last_error();
    ASSERT_EQ(tandem_session_create(engine_, &session_), TANDEM_OK) << tandem_last_error();
  }
  void TearDown() override {
    EXPECT_EQ(tandem_session_destroy(session_), TANDEM_OK);
    EXPECT_EQ(tandem_engine_destroy(engine_), TANDEM_OK);
  }
  tandem_status generate(tandem_text_function on_text) {
    tandem_generate_options options = TANDEM_GENERATE_OPTIONS_INIT;
    options.max_new_tokens = 8;
    options.ignore_eos = 1;
    options.on_text = on_text;
    return tandem_session_generate_from(session_, kPrompt.data(), kPrompt.size(), &options, nullptr);
  }

  tandem_engine* engine_ = nullptr;
  tandem_session* session_ = nullptr;
};

TEST_F(CInterface, AnExceptionOfACallbackBecomesAnError) {
  EXPECT_EQ(generate([](const char*, size_t, void*) -> int32_t { throw std::runtime_error("the window is closed"); }),
            TANDEM_INVALID_ARGUMENT);
  EXPECT_NE(std::string(tandem_last_error()).find("the window is closed"), std::string::npos) << tandem_last_error();
  EXPECT_EQ(generate([](const char*, size_t, void*) -> int32_t { throw 7; }), TANDEM_INVALID_ARGUMENT);
  EXPECT_EQ(generate([](const char*, size_t, void*) -> int32_t { throw std::bad_alloc(); }), TANDEM_RESOURCE_EXHAUSTED);
  EXPECT_EQ(tandem_session_score(
                session_, kPrompt.data(), kPrompt.size(),
                [](size_t, const float*, size_t, void*) -> int32_t { throw std::runtime_error("no more"); }, nullptr),
            TANDEM_INVALID_ARGUMENT);
  EXPECT_NE(std::string(tandem_last_error()).find("no more"), std::string::npos) << tandem_last_error();
  EXPECT_EQ(generate([](const char*, size_t, void*) -> int32_t { return 1; }), TANDEM_OK) << tandem_last_error();
}

struct Logged {
  tandem_log_level level = TANDEM_LOG_DEFAULT;
  std::string message;
};

TEST(CLog, TheFunctionGetsLevelMessageAndUserData) {
  Logged logged;
  tandem_engine_options options = TANDEM_ENGINE_OPTIONS_INIT;
  EXPECT_FALSE(tandem::c_api::to_engine_options(&options)->log);
  options.log = [](tandem_log_level level, const char* message, void* user_data) {
    *static_cast<Logged*>(user_data) = {level, message};
  };
  options.log_user_data = &logged;
  EXPECT_EQ(tandem::c_api::to_engine_options(&options)->log_level, tandem::LogLevel::kWarning);
  options.log_level = TANDEM_LOG_DEBUG;
  const auto converted = tandem::c_api::to_engine_options(&options);
  ASSERT_TRUE(converted.ok()) << converted.error().message;
  EXPECT_EQ(converted->log_level, tandem::LogLevel::kDebug);
  const std::string words = "no shared memory, and more";
  converted->log(tandem::LogLevel::kWarning, std::string_view(words).substr(0, 16));  // Ends without a zero byte.
  EXPECT_EQ(logged.level, TANDEM_LOG_WARNING);
  EXPECT_EQ(logged.message, "no shared memory");
}

}  // namespace exceptions_test

// The registry: every back end under its name, files for absent back ends, options that reach the right one.
#include "backends/registry/registry.h"

#include <gtest/gtest.h>

#include <set>

#include "compiler/backend_compiler.h"
#include "support/compiled_model.h"

namespace tandem {
namespace registry_test {

TEST(Registry, HasBothHalvesOfEveryBackendUnderOneName) {
  std::set<std::string_view> names;
  for (const Backend* backend : backends()) {
    EXPECT_TRUE(names.insert(backend->name()).second) << backend->name();
    EXPECT_EQ(find_backend(backend->name()), backend);
  }
  ASSERT_EQ(backend_compilers().size(), backends().size());
  std::set<std::string_view> target_names;
  for (size_t i = 0; i < backends().size(); ++i) {
    const BackendCompiler& compiler = *backend_compilers()[i];
    EXPECT_EQ(compiler.name(), backends()[i]->name());
    for (const Target& target : compiler.targets()) {
      EXPECT_EQ(target.backend, compiler.name());
      EXPECT_TRUE(target_names.insert(target.name).second) << target.name << " is there twice";
      EXPECT_EQ(&compiler_of(target), &compiler);
    }
  }
  EXPECT_EQ(targets().size(), target_names.size());
  EXPECT_EQ(find_backend("abacus"), nullptr);
}

// The flags of the command line are made from these.
TEST(Registry, OptionsHaveHelpAndDefaultsThatTheyAllow) {
  const auto check = [](std::span<const OptionSpec> specs) {
    for (const OptionSpec& spec : specs) {
      EXPECT_FALSE(spec.help.empty()) << spec.name;
      const bool has_default = !spec.default_value.empty(), is_flag = spec.kind == OptionKind::kFlag;
      EXPECT_TRUE(!has_default || check_option(spec, spec.default_value).ok()) << spec.name;
      EXPECT_TRUE(!is_flag || has_default) << spec.name;
      EXPECT_TRUE(!is_flag || !spec.has_flag || spec.default_value == "false") << spec.name;
    }
  };
  check(all_backend_options());
  for (const BackendCompiler* compiler : backend_compilers()) {
    check(compiler->options());
    EXPECT_EQ(compiler->options().empty(), compiler->target_group().empty()) << compiler->name();
  }
}

TEST(Registry, AFileForAnUnknownBackendIsRefused) {
  ArtifactHeader header;
  header.backend = "abacus";
  header.target = "beads";
  const auto backend = backend_of(header);
  ASSERT_FALSE(backend.ok());
  EXPECT_EQ(backend.error().code, ErrorCode::kUnsupported);
  for (const char* part : {"\"abacus\"", "beads", "this build has cpu", "newer tandem"}) {
    EXPECT_NE(backend.error().message.find(part), std::string::npos) << backend.error().message;
  }
}

TEST(Registry, OptionsOfOtherBackendsArePassedOverAndUnknownOnesRefused) {
  const auto file = test::compiled({.checkpoint = test::golden_dir("qwen3")});
  const auto load = [&](const BackendOptions& options) {
    return Engine::load(file, {.threads = 1, .verify = VerifyWeights::kOnFirstUse, .backend = options});
  };
  EXPECT_TRUE(load({{"profile", "sustained"}, {"qnn-libs", "/nonexistent"}}).ok());
  const auto unknown = load({{"profil", "sustained"}});
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(unknown.error().message.find("`profil`; these are known: "), std::string::npos) << unknown.error().message;
  EXPECT_NE(unknown.error().message.find("profile"), std::string::npos);
}

}  // namespace registry_test
}  // namespace tandem

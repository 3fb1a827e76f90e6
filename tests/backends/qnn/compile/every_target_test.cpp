// Every NPU of the table compiles, and the library agrees on which architecture it has: it writes that into the binary
// by the SoC's number, whatever we say.
#include <gtest/gtest.h>

#include "backends/qnn/api/binary_info.h"
#include "backends/qnn/compile/npu_support.h"
#include "backends/qnn/compile/npu_targets.h"

namespace tandem {
namespace every_target_test {

TEST(EveryTarget, CompilesForTheArchitectureOfItsRow) {
  TANDEM_NEEDS_QNN();
  const test::TempFolder folder;
  for (const NpuTarget& target : npu_targets()) {
    SCOPED_TRACE(target.name);
    CompileOptions options = test::npu_options("w8", {});
    options.target = target.name;
    options.calibration.samples = 1;
    options.backend["shards"] = "1";
    test::must_compile(test::golden_dir("qwen3"), folder / "x.tdm", options);
    auto artifact = Artifact::open(folder / "x.tdm");
    ASSERT_TRUE(artifact.ok()) << artifact.error().message;
    ASSERT_EQ(artifact->header().shards.size(), 1u);
    const auto binary = artifact->bytes(artifact->header().shards[0].binary);
    const auto info = qnn::read_binary_info(*qnn::test::qnn_library().value(), binary);
    ASSERT_TRUE(info.ok()) << info.error().message;
    EXPECT_EQ(info->arch, target.arch);
    EXPECT_EQ(info->soc_model, target.soc_model);
    for (const qnn::GraphInfo& graph : info->graphs) {
      EXPECT_EQ(graph.vtcm_bytes, static_cast<uint64_t>(target.vtcm_mb) << 20) << graph.name;
    }
  }
}

}  // namespace every_target_test
}  // namespace tandem

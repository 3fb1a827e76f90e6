// What only phones have, on fake libraries: power profiles, shared memory, context groups.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>

#include "backends/qnn/api/execution.h"
#include "backends/qnn/api/log.h"
#include "backends/qnn/api/power.h"
#include "backends/qnn/api/profile.h"
#include "backends/qnn/api/qnn_support.h"
#include "backends/qnn/api/rpcmem.h"
#include "backends/qnn/api/shared_memory.h"
#include "backends/qnn/execute/fake/record.h"

namespace tandem::qnn {
namespace phone_test {

const std::string kFakes = TANDEM_QNN_EXECUTE_FAKES;

// The fake library's functions and record. Reset by each test.
class FakePhone : public ::testing::Test {
 protected:
  void SetUp() override {
    SearchOptions search;
    search.path = kFakes;
    auto library = Library::load(search);
    ASSERT_TRUE(library.ok()) << library.error().message;
    auto backend = Backend::create(*library);
    ASSERT_TRUE(backend.ok()) << backend.error().message;
    // Not one of the emulator's, so that the process may still create devices of its own architecture.
    auto device = Device::create(*backend, {.soc_model = test::test_soc(), .arch = known_arch(test::test_soc())});
    ASSERT_TRUE(device.ok()) << device.error().message;
    device_ = *device;
    void* const handle = ::dlopen((kFakes + "/libQnnHtp.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(handle, nullptr);
    const auto get = reinterpret_cast<test::FakePhoneRecord* (*)()>(::dlsym(handle, "fake_phone_record"));
    ASSERT_NE(get, nullptr);
    record_ = get();
    *record_ = {};
  }
  void TearDown() override {
    if (record_ != nullptr) *record_ = {};
  }

  std::shared_ptr<const Context> load(const Context::LoadOptions& options = {}) {
    static const std::vector<uint8_t> bytes = {1, 2, 3};
    auto context = Context::load(device_, {bytes, false, device_->arch(), binary_checksum(bytes)}, options);
    EXPECT_TRUE(context.ok()) << context.error().message;
    return context.ok() ? *context : nullptr;
  }

  std::shared_ptr<const Device> device_;
  test::FakePhoneRecord* record_ = nullptr;
};

TEST(PerformanceProfiles, HaveNames) {
  for (const auto profile : {PerformanceProfile::kBurst, PerformanceProfile::kSustained, PerformanceProfile::kBalanced,
                             PerformanceProfile::kPowerSaver}) {
    const auto parsed = parse_performance_profile(performance_profile_name(profile));
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(*parsed, profile);
  }
  EXPECT_EQ(performance_profile_name(PerformanceProfile::kPowerSaver), "power_saver");
  const auto unknown = parse_performance_profile("warp");
  ASSERT_FALSE(unknown.ok());
  EXPECT_TRUE(test::says(unknown.error(), {"warp", "burst, sustained, balanced or power_saver"}));
}

// ---- The contents of a profile, whatever the library does with it ----

using abi::ProfileEvent;
using abi::ProfileUnit;

const std::vector<abi::ProfileEventData> kEvents = {
    {ProfileEvent::kPerformanceEstimates, ProfileUnit::kMicroseconds, 0, "Performance Estimates"},
    {ProfileEvent::kSimulatedTime, ProfileUnit::kMicroseconds, 100, "time"},
    {ProfileEvent::kSimulatedTimeLower, ProfileUnit::kMicroseconds, 90, "lower"},
    {ProfileEvent::kSimulatedTimeUpper, ProfileUnit::kMicroseconds, 120, "upper"},
    {ProfileEvent::kInputFill, ProfileUnit::kBytes, 1000, "first core"},
    {ProfileEvent::kInputFill, ProfileUnit::kBytes, 500, "second core"},
    {ProfileEvent::kOutputSpill, ProfileUnit::kBytes, 7, "out"},
    {ProfileEvent::kIntermediateFill, ProfileUnit::kBytes, 30, "fill"},
    {ProfileEvent::kIntermediateSpill, ProfileUnit::kBytes, 20, "spill"},
    {ProfileEvent::kUncostedOps, ProfileUnit::kMicroseconds, 5, "count"},
    {ProfileEvent::kUncostedOp, ProfileUnit::kMicroseconds, 0, "q.rope:RotaryEmbedding : OpId_90"},
    {ProfileEvent::kUncostedOp, ProfileUnit::kMicroseconds, 0, "OpId_3"},
    {ProfileEvent::kUncostedOp, ProfileUnit::kMicroseconds, 0, nullptr},
    {static_cast<ProfileEvent>(4711), static_cast<ProfileUnit>(99), 1, "of a later version"},
};

TEST_F(FakePhone, AnEstimateIsAddedUpFromItsEvents) {
  record_->has_profiles = true;
  record_->events = kEvents;
  {
    const auto profile = Profile::create(device_->backend());
    ASSERT_TRUE(profile.ok()) << profile.error().message;
    EXPECT_EQ(record_->profiles, 1);
    const auto estimate = profile->read_estimate();
    ASSERT_TRUE(estimate.ok()) << estimate.error().message;
    ASSERT_TRUE(estimate->has_value());
    const Estimate expected = {100, 90, 120, 1500,
                               7,   20, 30,  {"q.rope:RotaryEmbedding", "unnamed", "unnamed", "unnamed", "unnamed"}};
    EXPECT_EQ(**estimate, expected);
    record_->events.clear();
    EXPECT_FALSE(profile->read_estimate()->has_value()) << "nothing about the chip";
    record_->events = {kEvents[0]};
    EXPECT_FALSE(profile->read_estimate()->has_value()) << "a heading and nothing below it";
  }
  EXPECT_EQ(record_->profiles, 0);
}

TEST_F(FakePhone, ProfilesThatMakeNoSenseAreErrors) {
  const auto refused = Profile::create(device_->backend());
  ASSERT_FALSE(refused.ok());
  EXPECT_TRUE(test::says(refused.error(), {"creating a profile"}));
  EXPECT_FALSE(Profile::create(nullptr).ok());
  record_->has_profiles = true;
  const auto profile = Profile::create(device_->backend());
  ASSERT_TRUE(profile.ok()) << profile.error().message;
  record_->events = kEvents;
  record_->events_loop = true;  // 14 below each of 14, and so on.
  auto estimate = profile->read_estimate();
  ASSERT_FALSE(estimate.ok());
  EXPECT_TRUE(test::says(estimate.error(), {"events of a profile"}));
  record_->events_loop = false;
  record_->more_events = 0xfffffff0;
  EXPECT_FALSE(profile->read_estimate().ok());
  record_->more_events = 0;
  record_->events[9].value = uint64_t{1} << 60;
  estimate = profile->read_estimate();
  ASSERT_FALSE(estimate.ok());
  EXPECT_TRUE(test::says(estimate.error(), {"ops without a cost"}));
}

TEST_F(FakePhone, AVoteIsCastAndTakenBack) {
  {
    const auto vote = PowerVote::create(device_, {PerformanceProfile::kBurst, 5000});
    ASSERT_TRUE(vote.ok()) << vote.error().message;
    EXPECT_EQ(record_->power_ids, 1);
    ASSERT_EQ(record_->power.size(), 3u);
    const abi::PowerConfig& clocks = record_->power[0];
    EXPECT_EQ(clocks.option, abi::PowerOption::kDcvs);
    EXPECT_EQ(clocks.dcvs.power_config_id, 17u);
    EXPECT_EQ(clocks.dcvs.dcvs_enabled, 0u);
    EXPECT_EQ(clocks.dcvs.core_target, abi::VoltageCorner::kMax);
    EXPECT_EQ(clocks.dcvs.bus_min, abi::VoltageCorner::kMax);
    EXPECT_EQ(record_->power[1].option, abi::PowerOption::kRpcControlLatency);
    EXPECT_EQ(record_->power[2].option, abi::PowerOption::kRpcPollingTime);
    EXPECT_EQ(record_->power[2].rpc_polling_us, 5000u);
  }
  EXPECT_EQ(record_->power_ids, 0);
  ASSERT_EQ(record_->power.size(), 5u);
  EXPECT_EQ(record_->power[3].dcvs.dcvs_enabled, 1u);
  EXPECT_EQ(record_->power[3].dcvs.core_target, abi::VoltageCorner::kDisable);
  EXPECT_EQ(record_->power[4].rpc_polling_us, 0u);
}

TEST_F(FakePhone, SlowProfilesAskForLessAndDoNotPoll) {
  uint32_t last = UINT32_MAX;
  for (const auto profile : {PerformanceProfile::kBurst, PerformanceProfile::kSustained, PerformanceProfile::kBalanced,
                             PerformanceProfile::kPowerSaver}) {
    *record_ = {};
    const auto vote = PowerVote::create(device_, {profile, 9999});
    ASSERT_TRUE(vote.ok()) << vote.error().message;
    const auto corner = static_cast<uint32_t>(record_->power.front().dcvs.core_target);
    EXPECT_LT(corner, last) << performance_profile_name(profile);
    last = corner;
    const bool fast = profile == PerformanceProfile::kBurst || profile == PerformanceProfile::kSustained;
    EXPECT_EQ(record_->power.back().option, abi::PowerOption::kRpcPollingTime);
    EXPECT_EQ(record_->power.back().rpc_polling_us, fast ? 9999u : 0u);
  }
}

TEST_F(FakePhone, ARefusedVoteIsASentenceAndLeavesNothing) {
  record_->refuse_power = true;
  const auto vote = PowerVote::create(device_, {});
  ASSERT_FALSE(vote.ok());
  EXPECT_TRUE(test::says(vote.error(), {"setting the performance profile", "13002", "choose another"}));
  EXPECT_EQ(record_->power_ids, 0);
  const auto too_long = PowerVote::create(device_, {PerformanceProfile::kBurst, 10000});
  ASSERT_FALSE(too_long.ok());
  EXPECT_TRUE(test::says(too_long.error(), {"10000", "9999"}));
}

TEST(RealPower, TheEmulatorTakesTheCallsAndClocksNothing) {
  TANDEM_NEEDS_QNN();
  ASSERT_TRUE(test::qnn_device().ok()) << test::qnn_device().error().message;
  for (const auto profile : {PerformanceProfile::kBurst, PerformanceProfile::kPowerSaver}) {
    const auto vote = PowerVote::create(test::qnn_device().value(), {profile, 9999});
    EXPECT_TRUE(vote.ok()) << vote.error().message;
  }
}

TEST(SharedMemoryHeap, IsAbsentHereAndSaysSo) {
  const auto heap = SharedHeap::open("libcdsprpc_that_is_not_there.so");
  ASSERT_FALSE(heap.ok());
  EXPECT_EQ(heap.error().code, ErrorCode::kNotFound);
  const auto other = SharedHeap::open(kFakes + "/libQnnHtp.so");
  ASSERT_FALSE(other.ok());
  EXPECT_TRUE(test::says(other.error(), {"lacks the functions"}));
}

TEST(SharedMemoryHeap, FindsAddressesAgain) {
  auto heap = SharedHeap::open(kFakes + "/libcdsprpc.so");
  ASSERT_TRUE(heap.ok()) << heap.error().message;
  EXPECT_EQ((*heap)->allocate(0), nullptr);
  EXPECT_EQ((*heap)->allocate(uint64_t{1} << 31), nullptr);
  auto memory = (*heap)->allocate(10000);
  const auto other = (*heap)->allocate(64);
  ASSERT_NE(memory, nullptr);
  const auto range = (*heap)->find(memory.get() + 256, 1000);
  ASSERT_TRUE(range.has_value());
  EXPECT_GE(range->fd, 0);
  EXPECT_EQ(range->offset, 256u);
  EXPECT_EQ(range->buffer_bytes, 10000u);
  EXPECT_TRUE((*heap)->find(memory.get(), 10000).has_value());
  EXPECT_FALSE((*heap)->find(memory.get(), 10001).has_value());
  EXPECT_FALSE((*heap)->find(memory.get() + 10000, 1).has_value());
  EXPECT_NE((*heap)->find(other.get(), 1)->fd, range->fd);
  int local = 0;
  EXPECT_FALSE((*heap)->find(&local, 4).has_value());
  const uint8_t* const freed = memory.get();
  memory.reset();
  EXPECT_FALSE((*heap)->find(freed, 1).has_value());
}

TEST(SharedMemoryHeap, MemoryKeepsTheHeap) {
  std::shared_ptr<uint8_t> memory;
  {
    auto heap = SharedHeap::open(kFakes + "/libcdsprpc.so");
    ASSERT_TRUE(heap.ok());
    memory = (*heap)->allocate(100);
  }
  std::memset(memory.get(), 1, 100);
}

TEST_F(FakePhone, AGraphTakesSharedAndPlainMemoryByItsOwnWay) {
  auto heap = SharedHeap::open(kFakes + "/libcdsprpc.so");
  ASSERT_TRUE(heap.ok());
  const auto memory = (*heap)->allocate(4096);
  const TensorInfo in = {"in", 1, DataType::kUint8, {16}, std::nullopt, 16};
  const TensorInfo out = {"out", 2, DataType::kUint8, {16}, std::nullopt, 16};
  {
    const auto context = load();
    auto graph = Graph::retrieve(context, {"graph", {in}, {out}, 0, 0, 0});
    ASSERT_TRUE(graph.ok());
    auto execution = Execution::create(*graph);
    ASSERT_TRUE(execution.ok());
    const auto shared_in = SharedTensor::create(context, in, *(*heap)->find(memory.get() + 512, 16));
    const auto shared_out = SharedTensor::create(context, out, *(*heap)->find(memory.get() + 1024, 16));
    ASSERT_TRUE(shared_in.ok() && shared_out.ok());
    EXPECT_EQ(record_->shared_tensors, 2);
    ASSERT_TRUE(execution->set_input(0, {memory.get() + 512, 16}, *shared_in).ok());
    ASSERT_TRUE(execution->set_output(0, {memory.get() + 1024, 16}, *shared_out).ok());
    memory.get()[512 + 3] = 41;
    ASSERT_TRUE(execution->run().ok());
    EXPECT_EQ(memory.get()[1024 + 3], 42);
    EXPECT_EQ(record_->shared_inputs, 1);
    std::vector<uint8_t> plain(16, 7);
    ASSERT_TRUE(execution->set_input(0, plain).ok());
    ASSERT_TRUE(execution->run().ok());
    EXPECT_EQ(memory.get()[1024 + 3], 8);
    EXPECT_EQ(record_->shared_inputs, 1);
    // Shared memory does not hide that an output overlaps an input.
    ASSERT_TRUE(execution->set_input(0, {memory.get() + 1030, 16}, *shared_in).ok());
    const Status overlapping = execution->run();
    ASSERT_FALSE(overlapping.ok());
    EXPECT_TRUE(test::says(overlapping.error(), {"share memory"}));
  }
  EXPECT_EQ(record_->shared_tensors, 0);
  EXPECT_EQ(record_->contexts, 0);
}

TEST_F(FakePhone, SharingThatIsRefusedIsASentence) {
  const TensorInfo in = {"in", 1, DataType::kUint8, {16}, std::nullopt, 16};
  record_->refuse_sharing = 8003;
  const auto context = load();
  auto shared = SharedTensor::create(context, in, {3, 0, 4096});
  ASSERT_FALSE(shared.ok());
  EXPECT_TRUE(test::says(shared.error(), {"sharing the memory of tensor in", "8003"}));
  shared = SharedTensor::create(context, in, {3, 4090, 4096});
  ASSERT_FALSE(shared.ok());
  EXPECT_TRUE(test::says(shared.error(), {"not inside"}));
}

TEST_F(FakePhone, TheFirstContextOfAGroupOutlivesTheOthers) {
  Context::LoadOptions options;
  options.use_group = true;
  options.group.spill_fill_bytes = 1000;
  auto first = load(options);
  ASSERT_TRUE(first->in_group());
  options.group.first = first;
  auto second = load(options);
  ASSERT_TRUE(second->in_group());
  ASSERT_EQ(record_->groups.size(), 2u);
  EXPECT_EQ(record_->groups[0], 0u);
  EXPECT_EQ(record_->groups[1], reinterpret_cast<uintptr_t>(first->handle()));
  first.reset();
  options = {};
  EXPECT_EQ(record_->contexts, 2) << "the second still needs the first";
  second.reset();
  EXPECT_EQ(record_->contexts, 0);
}

TEST_F(FakePhone, WhereGroupsAreRefusedContextsLoadWithoutOne) {
  record_->refuse_groups = true;
  Context::LoadOptions options;
  options.use_group = true;
  options.group.first = load(options);
  EXPECT_FALSE(options.group.first->in_group());
  EXPECT_FALSE(load(options)->in_group());
  EXPECT_EQ(record_->contexts, 1);
}

TEST_F(FakePhone, WhereASignedProcessIsRefusedAnUnsignedOneIsUsedAndTheLogSaysSo) {
  std::vector<std::string> messages;
  const OpenLog log(Log([&](LogLevel, std::string_view message) { messages.emplace_back(message); }));
  const auto create = [&] {
    return Device::create(device_->backend(),
                          {.soc_model = test::test_soc(), .arch = known_arch(test::test_soc()), .signed_pd = true});
  };
  auto device = create();
  ASSERT_TRUE(device.ok()) << device.error().message;
  EXPECT_TRUE((*device)->options().signed_pd);
  EXPECT_EQ(record_->devices, std::vector<bool>{true});
  EXPECT_TRUE(messages.empty());
  for (const uint64_t code : {1000, 1004, 1005, 1006, 14001}) {
    *record_ = {};
    messages.clear();
    record_->refuse_signed = code;
    device = create();
    ASSERT_TRUE(device.ok()) << code << ": " << device.error().message;
    EXPECT_FALSE((*device)->options().signed_pd);
    EXPECT_EQ(record_->devices, (std::vector<bool>{true, false})) << code;
    ASSERT_EQ(messages.size(), 1u) << code;
    EXPECT_NE(messages[0].find("refuses the option `signed-pd`; running in an unsigned process"), std::string::npos)
        << messages[0];
  }
}

TEST_F(FakePhone, ADeviceThatFailsForAnotherReasonIsNotTriedAgain) {
  std::vector<std::string> messages;
  const OpenLog log(Log([&](LogLevel, std::string_view message) { messages.emplace_back(message); }));
  const DeviceOptions options = {
      .soc_model = test::test_soc(), .arch = known_arch(test::test_soc()), .signed_pd = true};
  record_->refuse_signed = 1009;
  auto device = Device::create(device_->backend(), options);
  ASSERT_FALSE(device.ok());
  EXPECT_TRUE(test::says(device.error(), {"1009", "stub or skel"}));
  EXPECT_EQ(record_->devices.size(), 1u);
  record_->refuse_signed = 1000;
  record_->refuse_unsigned = 14002;
  device = Device::create(device_->backend(), options);
  ASSERT_FALSE(device.ok());
  EXPECT_TRUE(test::says(device.error(), {"14002", "NPU is not available"}));
  EXPECT_TRUE(messages.empty()) << messages[0];
}

TEST_F(FakePhone, TellsItsChip) {
  const ChipInfo chip = query_chip(*device_->backend());
  EXPECT_EQ(chip.soc_model, 57u);
  EXPECT_EQ(chip.arch, 75);
  EXPECT_EQ(chip.vtcm_mb, 8);
}

}  // namespace phone_test
}  // namespace tandem::qnn

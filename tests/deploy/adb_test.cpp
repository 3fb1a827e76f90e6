#include "deploy/adb.h"

#include <gtest/gtest.h>

#include "deploy/deploy_adb.h"
#include "deploy/device_files_state.h"

namespace tandem {
namespace adb_test {

void expect_says(const Status& status, std::string_view part) {
  ASSERT_FALSE(status.ok()) << part;
  EXPECT_NE(status.error().message.find(part), std::string::npos) << status.error().message;
}

TEST(Adb, ReadsTheListOfDevices) {
  const auto devices = parse_device_list(
      "* daemon not running; starting now at tcp:5037\n* daemon started successfully\nList of devices attached\n"
      "R3CT\tdevice\nemulator-5554\toffline\r\n192.168.1.7:5555\tunauthorized\n0123\tno permissions (user in "
      "plugdev?)\n\n");
  ASSERT_EQ(devices.size(), 4u);
  EXPECT_EQ(devices[0].serial, "R3CT");
  EXPECT_EQ(devices[0].state, "device");
  EXPECT_EQ(devices[1].state, "offline");
  EXPECT_EQ(devices[2].serial, "192.168.1.7:5555");
  EXPECT_TRUE(parse_device_list("List of devices attached\n\n").empty());
  EXPECT_TRUE(parse_device_list("").empty());
}

TEST(Adb, SelectsADeviceOrSaysWhatToDo) {
  const std::vector<AdbDevice> one = {{"A", "device"}}, two = {{"A", "device"}, {"B", "unauthorized"}};
  EXPECT_EQ(*select_device(one, ""), "A");
  EXPECT_EQ(*select_device(two, "A"), "A");
  expect_says(select_device({}, "").status(), "USB debugging");
  expect_says(select_device({}, "A").status(), "adb sees no device");
  expect_says(select_device(two, "").status(), "several devices (A, B)");
  expect_says(select_device(two, "C").status(), "no device C, only A, B");
  expect_says(select_device(two, "B").status(), "allow USB debugging");
  expect_says(select_device({{"A", "offline"}}, "").status(), "offline");
  expect_says(select_device({{"A", "no permissions; see udev"}}, "").status(), "udev");
  expect_says(select_device({{"A", "recovery"}}, "").status(), "\"recovery\"");
}

TEST(Adb, FailuresBecomeSentences) {
  const auto describe = [](const char* errors) {
    return Status(describe_adb_failure("copying a", {.exit_code = 1, .signal = 0, .output = {}, .errors = errors}));
  };
  const auto full =
      describe("adb: error: failed to copy 'a' to '/b': remote couldn't write: No space left on device\n");
  expect_says(full, "no space left");
  EXPECT_EQ(full.error().code, ErrorCode::kResourceExhausted);
  expect_says(describe("adb: error: failed to copy: Permission denied"), "/data/local/tmp");
  expect_says(describe("error: device offline"), "offline");
  expect_says(describe("error: device 'X' not found"), "adb devices");
  expect_says(describe("sh: stat: not found"), "copying a failed: sh: stat: not found");
  expect_says(describe("error: closed"), "connection was lost");
  expect_says(describe("something\nelse\n"), "copying a failed: something else");
  expect_says(describe(""), "said nothing");
}

TEST(Adb, FreeSpace) {
  EXPECT_EQ(parse_free_bytes("Filesystem     1K-blocks    Used Available Use% Mounted on\n"
                             "/dev/block/dm-9 112345678 1234567  99999999   2% /data/user/0\n"),
            99999999ull * 1024);
  EXPECT_EQ(parse_free_bytes("Filesystem 1K-blocks Used Available Use% Mounted on\n/a/very/long/name\n 10 4 6 40% /\n"),
            6u * 1024);
  for (const char* text : {"", "x", "a\nb", "a\n99%", "h\nf 1 2 x 3% /"}) EXPECT_FALSE(parse_free_bytes(text)) << text;
}

TEST(Adb, FoldersOnTheDevice) {
  for (const char* folder : {"/data/local/tmp/tandem", "/sdcard/a b", "/data/it's"}) {
    EXPECT_TRUE(check_remote_folder(folder).ok()) << folder;
  }
  for (const char* folder : {"", "/", "//x", "data", "/data/../etc", "/data/..", "/da\nta", "\\data"}) {
    expect_says(check_remote_folder(folder), "`remote_dir`");
  }
}

TEST(Adb, DevicesThatCannotRunIt) {
  const DeviceProperties phone{
      .is_android = true, .api_level = 34, .abis = "arm64-v8a", .soc = "SM8750P", .model = "x", .machine = "aarch64"};
  DeployPlan plan;
  plan.targets = {"sm8650", "sm8750"};
  plan.manifest.target = "sm8650,sm8750";
  plan.needs_chip = true;
  plan.system = DeviceSystem::kAndroid;
  std::vector<std::string> warnings;
  EXPECT_TRUE(check_device(phone, plan, warnings).ok());
  EXPECT_TRUE(warnings.empty());

  DeviceProperties device = phone;
  device.soc = "SM8550";
  EXPECT_TRUE(check_device(device, plan, warnings).ok());
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("SM8550"), std::string::npos);
  device = phone;
  device.api_level = 24;
  expect_says(check_device(device, plan, warnings), "API level 24");
  device = phone;
  device.abis = "x86_64";
  device.machine = "x86_64";
  expect_says(check_device(device, plan, warnings), "x86_64");
  plan.system = DeviceSystem::kLinux;
  expect_says(check_device(phone, plan, warnings), "runs Android");
}

}  // namespace adb_test
}  // namespace tandem

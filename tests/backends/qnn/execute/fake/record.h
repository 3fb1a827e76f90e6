// The calls that the fake libQnnHtp.so of these tests received.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/qnn/api/abi_power.h"
#include "backends/qnn/api/abi_profile.h"

namespace tandem::qnn::test {

struct FakePhoneRecord {
  std::vector<abi::PowerConfig> power;  // All that were set, in order.
  int power_ids = 0;                    // That live.
  int shared_tensors = 0;               // That live.
  int shared_inputs = 0;                // Of all executions.
  int contexts = 0;                     // That live.
  std::vector<bool> devices;            // All that were requested, in order: whether signed.
  std::vector<uint64_t> groups;         // For each context that requested one: the handle of its first.
  // Knobs.
  bool refuse_groups = false;
  bool refuse_power = false;
  uint64_t refuse_signed = 0;    // An error code.
  uint64_t refuse_unsigned = 0;  // The same.
  uint64_t refuse_sharing = 0;   // An error code.
  uint32_t soc_model = 57;       // The chip.
  uint32_t arch = 75;
  // Profiles: events at the top, and below each of them all of them again if it is a loop.
  bool has_profiles = false;
  std::vector<abi::ProfileEventData> events = {};
  bool events_loop = false;
  uint32_t more_events = 0;  // Claimed beyond those.
  int profiles = 0;          // That live.
};

}  // namespace tandem::qnn::test

extern "C" tandem::qnn::test::FakePhoneRecord* fake_phone_record();

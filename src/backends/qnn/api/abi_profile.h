// Our own declarations of QNN's profiling: what finalizing a graph says about how the graph would run.
#pragma once

#include "backends/qnn/api/abi.h"

namespace tandem::qnn::abi {

enum class ProfileLevel : uint32_t { kBasic = 1, kDetailed = 2 };
enum class ProfileUnit : uint32_t { kMicroseconds = 1, kBytes = 2, kCycles = 3 };

// Types of HTP's events, found by asking the library (V68, V73, V81). The estimates of a finalized graph are below
// kPerformanceEstimates; traffic is below kCore below kBandwidth.
enum class ProfileEvent : uint32_t {
  kPerformanceEstimates = 2004,
  kSimulatedCycles = 2006,
  kSimulatedCyclesLower = 2007,
  kSimulatedCyclesUpper = 2008,
  kBandwidth = 2009,
  kCore = 2010,
  kInputFill = 2011,
  kIntermediateFill = 2012,
  kIntermediateSpill = 2013,
  kInterCoreFill = 2014,
  kInterCoreSpill = 2015,
  kOutputSpill = 2016,
  kUncostedOps = 2017,
  kUncostedOp = 2018,
  kSimulatedTime = 2019,
  kSimulatedTimeLower = 2020,
  kSimulatedTimeUpper = 2021,
};

using ProfileEventId = uint64_t;

struct ProfileEventData {
  ProfileEvent type;
  ProfileUnit unit;
  uint64_t value;
  const char* identifier;
};
static_assert(sizeof(ProfileEventData) == 24);
static_assert(offsetof(ProfileEventData, unit) == 4);
static_assert(offsetof(ProfileEventData, value) == 8);
static_assert(offsetof(ProfileEventData, identifier) == 16);

}  // namespace tandem::qnn::abi

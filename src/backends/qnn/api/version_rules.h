// What differs between versions of Qualcomm's library. HTP back end 5.N comes with QAIRT 2.N.
#pragma once

#include <cstddef>
#include <optional>

#include "backends/qnn/api/abi.h"

namespace tandem::qnn {

// Where the library reads the payload of HTP's device options; nothing where nobody has measured it.
std::optional<size_t> device_payload_offset(const abi::Version& htp);

// Whether RmsNorm needs its beta, which is optional by the vendor's description: without one, graphs validate and then
// cannot be finalized ("could not create op", 1002).
bool rms_norm_needs_beta(const abi::Version& htp);

// Whether RotaryEmbedding takes fp16 everywhere: 2.47 compiles some graphs with it and not others (1002).
bool rotary_embedding_takes_floats(const abi::Version& htp);

// Whether the x86 emulator runs one graph at a time only: with two at once it computes wrongly or never returns.
bool emulator_runs_one_at_a_time(const abi::Version& htp);

// Whether the library estimates how fast graphs are on every chip that it simulates.
bool has_estimates(const abi::Version& htp);

}  // namespace tandem::qnn

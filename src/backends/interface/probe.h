// What the back ends' answers to probe() have in common.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "ir/graph.h"
#include "tandem/probe.h"
#include "tandem/status.h"

namespace tandem {

// MemAvailable of a text like /proc/meminfo, in bytes; the most there is if it is not in there.
uint64_t parse_available_memory(std::string_view meminfo);
// What the system could give to programs without swapping: pages of mapped files count, because it can drop them. The
// most there is where nobody knows.
uint64_t available_memory();

// The memory of one session: states once, inputs and outputs of each method. The most there is if the sum is larger.
uint64_t session_bytes(std::span<const ir::Graph> methods);

// Sets the memory fields. `weights`: mapped or copied. Activations belong to the session.
void set_memory(BackendProbe& probe, uint64_t weights, uint64_t session, uint64_t available);

// Why it cannot run. Messages are "what is wrong; what to do"; `otherwise` is for those that do not say what to do.
void set_obstacle(BackendProbe& probe, const Error& error, std::string_view otherwise);

// For back ends that compute with the mapped weights: a session must fit into the free memory. Weights that do not are
// read from storage again and again, which a warning says.
void check_mapped_memory(BackendProbe& probe);

}  // namespace tandem

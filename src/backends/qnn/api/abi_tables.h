// Our own declarations of the two provider structs, each with its table of functions. Functions are identified by their
// index; tables only grow at their end. Functions that we do not call are Slots.
#pragma once

#include "backends/qnn/api/abi_memory.h"
#include "backends/qnn/api/abi_power.h"
#include "backends/qnn/api/abi_profile.h"
#include "backends/qnn/api/abi_system.h"

namespace tandem::qnn::abi {

using Slot = void (*)();

struct CoreTable {
  Slot property_has_capability;
  ErrorHandle (*backend_create)(Handle log, const BackendConfig** configs, Handle* backend);
  Slot backend_set_config;
  Slot backend_get_api_version;
  ErrorHandle (*backend_get_build_id)(const char** id);
  Slot backend_register_op_package;
  Slot backend_get_supported_operations;
  ErrorHandle (*backend_validate_op_config)(Handle backend, OpConfig op);
  ErrorHandle (*backend_free)(Handle backend);
  ErrorHandle (*context_create)(Handle backend, Handle device, const ContextConfig** configs, Handle* context);
  Slot context_set_config;
  ErrorHandle (*context_get_binary_size)(Handle context, uint64_t* bytes);
  ErrorHandle (*context_get_binary)(Handle context, void* buffer, uint64_t capacity, uint64_t* written);
  ErrorHandle (*context_create_from_binary)(Handle backend, Handle device, const ContextConfig** configs,
                                            const void* binary, uint64_t bytes, Handle* context, Handle profile);
  ErrorHandle (*context_free)(Handle context, Handle profile);
  ErrorHandle (*graph_create)(Handle context, const char* name, const GraphConfig** configs, Handle* graph);
  Slot graph_create_subgraph;
  Slot graph_set_config;
  ErrorHandle (*graph_add_node)(Handle graph, OpConfig op);
  ErrorHandle (*graph_finalize)(Handle graph, Handle profile, Handle signal);
  ErrorHandle (*graph_retrieve)(Handle context, const char* name, Handle* graph);
  ErrorHandle (*graph_execute)(Handle graph, const Tensor* inputs, uint32_t input_count, Tensor* outputs,
                               uint32_t output_count, Handle profile, Handle signal);
  Slot graph_execute_async;
  Slot tensor_create_context_tensor;
  ErrorHandle (*tensor_create_graph_tensor)(Handle graph, Tensor* tensor);
  ErrorHandle (*log_create)(LogCallback callback, LogLevel level, Handle* log);
  ErrorHandle (*log_set_level)(Handle log, LogLevel level);
  ErrorHandle (*log_free)(Handle log);
  ErrorHandle (*profile_create)(Handle backend, ProfileLevel level, Handle* profile);
  Slot profile_set_config;
  ErrorHandle (*profile_get_events)(Handle profile, const ProfileEventId** events, uint32_t* count);
  ErrorHandle (*profile_get_sub_events)(ProfileEventId event, const ProfileEventId** events, uint32_t* count);
  ErrorHandle (*profile_get_event_data)(ProfileEventId event, ProfileEventData* data);
  Slot profile_get_extended_event_data;
  ErrorHandle (*profile_free)(Handle profile);
  ErrorHandle (*memory_register)(Handle context, const MemoryDescriptor* descriptors, uint32_t count, Handle* memories);
  ErrorHandle (*memory_deregister)(const Handle* memories, uint32_t count);
  ErrorHandle (*device_get_platform_info)(Handle log, PlatformInfo** info);
  ErrorHandle (*device_free_platform_info)(Handle log, PlatformInfo* info);
  ErrorHandle (*device_get_infrastructure)(const Infrastructure** infrastructure);
  ErrorHandle (*device_create)(Handle log, const DeviceConfig** configs, Handle* device);
  Slot device_set_config;
  ErrorHandle (*device_get_info)(Handle device, PlatformInfo** info);
  ErrorHandle (*device_free)(Handle device);
  Slot rest[24];  // 44 to 67
};
static_assert(sizeof(CoreTable) == 68 * 8);
static_assert(offsetof(CoreTable, backend_create) == 1 * 8);
static_assert(offsetof(CoreTable, backend_get_build_id) == 4 * 8);
static_assert(offsetof(CoreTable, backend_validate_op_config) == 7 * 8);
static_assert(offsetof(CoreTable, backend_free) == 8 * 8);
static_assert(offsetof(CoreTable, context_create) == 9 * 8);
static_assert(offsetof(CoreTable, context_get_binary_size) == 11 * 8);
static_assert(offsetof(CoreTable, context_get_binary) == 12 * 8);
static_assert(offsetof(CoreTable, context_create_from_binary) == 13 * 8);
static_assert(offsetof(CoreTable, context_free) == 14 * 8);
static_assert(offsetof(CoreTable, graph_create) == 15 * 8);
static_assert(offsetof(CoreTable, graph_add_node) == 18 * 8);
static_assert(offsetof(CoreTable, graph_finalize) == 19 * 8);
static_assert(offsetof(CoreTable, graph_retrieve) == 20 * 8);
static_assert(offsetof(CoreTable, graph_execute) == 21 * 8);
static_assert(offsetof(CoreTable, tensor_create_graph_tensor) == 24 * 8);
static_assert(offsetof(CoreTable, log_create) == 25 * 8);
static_assert(offsetof(CoreTable, log_set_level) == 26 * 8);
static_assert(offsetof(CoreTable, log_free) == 27 * 8);
static_assert(offsetof(CoreTable, profile_create) == 28 * 8);
static_assert(offsetof(CoreTable, profile_get_events) == 30 * 8);
static_assert(offsetof(CoreTable, profile_get_sub_events) == 31 * 8);
static_assert(offsetof(CoreTable, profile_get_event_data) == 32 * 8);
static_assert(offsetof(CoreTable, profile_free) == 34 * 8);
static_assert(offsetof(CoreTable, memory_register) == 35 * 8);
static_assert(offsetof(CoreTable, memory_deregister) == 36 * 8);
static_assert(offsetof(CoreTable, device_get_platform_info) == 37 * 8);
static_assert(offsetof(CoreTable, device_free_platform_info) == 38 * 8);
static_assert(offsetof(CoreTable, device_get_infrastructure) == 39 * 8);
static_assert(offsetof(CoreTable, device_create) == 40 * 8);
static_assert(offsetof(CoreTable, device_get_info) == 42 * 8);
static_assert(offsetof(CoreTable, device_free) == 43 * 8);

struct CoreProvider {
  uint32_t backend_id;
  const char* name;
  Version core_version;
  Version backend_version;
  CoreTable functions;
};
static_assert(sizeof(CoreProvider) == 584);
static_assert(offsetof(CoreProvider, name) == 8);
static_assert(offsetof(CoreProvider, core_version) == 16);
static_assert(offsetof(CoreProvider, backend_version) == 28);
static_assert(offsetof(CoreProvider, functions) == 40);

inline constexpr uint32_t kHtpBackendId = 6;

struct SystemTable {
  ErrorHandle (*context_create)(Handle* context);
  Slot context_get_binary_info;  // Takes the binary as writable memory; the next one does not.
  ErrorHandle (*context_get_metadata)(Handle context, const void* binary, uint64_t bytes, const BinaryInfo** info);
  ErrorHandle (*context_free)(Handle context);
  Slot rest[9];
};
static_assert(sizeof(SystemTable) == 13 * 8);
static_assert(offsetof(SystemTable, context_get_metadata) == 2 * 8);
static_assert(offsetof(SystemTable, context_free) == 3 * 8);

struct SystemProvider {
  uint32_t backend_id;
  const char* name;
  Version version;
  SystemTable functions;
};
static_assert(sizeof(SystemProvider) == 136);
static_assert(offsetof(SystemProvider, name) == 8);
static_assert(offsetof(SystemProvider, version) == 16);
static_assert(offsetof(SystemProvider, functions) == 32);

// The only exported symbols that we look up.
inline constexpr const char* kGetCoreProviders = "QnnInterface_getProviders";
inline constexpr const char* kGetSystemProviders = "QnnSystemInterface_getProviders";
using GetCoreProviders = ErrorHandle (*)(const CoreProvider*** providers, uint32_t* count);
using GetSystemProviders = ErrorHandle (*)(const SystemProvider*** providers, uint32_t* count);

}  // namespace tandem::qnn::abi

// A libQnnHtp.so that accepts what a phone's accepts and the x86 one refuses: shared memory and context groups. It also
// records power settings, which the x86 one ignores. Its only graph adds 1 to every byte. It shows that the calls are
// made with the right arguments in the right order, not that a phone accepts them.
#include <sys/mman.h>

#include <cstring>
#include <map>

#include "backends/qnn/api/abi_tables.h"
#include "backends/qnn/execute/fake/record.h"

namespace abi = tandem::qnn::abi;
using tandem::qnn::test::FakePhoneRecord;

namespace {

FakePhoneRecord record;

struct Mapping {
  unsigned char* base;
  size_t bytes;
  unsigned char* data;
};
std::map<abi::Handle, Mapping> mappings;
uintptr_t next_handle = 1;
abi::Handle new_handle() { return reinterpret_cast<abi::Handle>(next_handle++); }

abi::ErrorHandle create_one(abi::Handle* handle) {
  *handle = new_handle();
  return 0;
}

abi::ErrorHandle create_power_id(uint32_t, uint32_t, uint32_t* id) {
  *id = 17;
  ++record.power_ids;
  return 0;
}
abi::ErrorHandle destroy_power_id(uint32_t id) {
  --record.power_ids;
  return id == 17 ? 0 : 13001;
}
abi::ErrorHandle set_power(uint32_t id, const abi::PowerConfig** configs) {
  if (record.refuse_power) return 13002;
  for (; *configs != nullptr; ++configs) record.power.push_back(**configs);
  return id == 17 ? 0 : 13001;
}

// As libraries that read the options' payload at 8 do: the number of the device, and whether it is wanted.
abi::ErrorHandle create_device(const abi::DeviceConfig** configs, abi::Handle* device) {
  bool is_signed = false;
  for (; configs != nullptr && *configs != nullptr; ++configs) {
    if ((*configs)->option != abi::DeviceOption::kCustom) continue;
    const auto* const custom = static_cast<const abi::HtpDeviceConfig*>((*configs)->custom);
    if (custom->option != abi::HtpDeviceOption::kSignedPd) continue;
    if (custom->words[1] != 0) return 14000;
    is_signed = custom->words[2] == 1;
  }
  record.devices.push_back(is_signed);
  const abi::ErrorHandle refusal = is_signed ? record.refuse_signed : record.refuse_unsigned;
  return refusal != 0 ? refusal : create_one(device);
}

abi::ErrorHandle create_context(const abi::ContextConfig** configs, abi::Handle* context) {
  if (configs != nullptr && configs[0] != nullptr) {
    const auto* const custom = static_cast<const abi::HtpContextConfig*>(configs[0]->custom);
    if (custom->option == abi::HtpContextOption::kRegisterMultiContexts) {
      if (record.refuse_groups) return 5010;
      record.groups.push_back(reinterpret_cast<uintptr_t>(custom->group.first));
    }
  }
  ++record.contexts;
  return create_one(context);
}

abi::ErrorHandle register_memory(abi::Handle, const abi::MemoryDescriptor* descriptors, uint32_t count,
                                 abi::Handle* memories) {
  if (record.refuse_sharing != 0) return record.refuse_sharing;
  if (count != 1 || descriptors->type != abi::MemoryType::kCustom) return 8000;
  const abi::HtpMemoryDescriptor& custom = *descriptors->custom;
  if (custom.type != abi::HtpMemoryType::kSharedBuffer || descriptors->shape.rank == 0) return 8000;
  void* const base = ::mmap(nullptr, custom.size, PROT_READ | PROT_WRITE, MAP_SHARED, custom.fd, 0);
  if (base == MAP_FAILED) return 8003;
  *memories = new_handle();
  auto* const bytes = static_cast<unsigned char*>(base);
  mappings[*memories] = {bytes, custom.size, bytes + custom.offset};
  ++record.shared_tensors;
  return 0;
}
abi::ErrorHandle deregister_memory(const abi::Handle* memories, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    const auto it = mappings.find(memories[i]);
    if (it == mappings.end()) return 8001;
    ::munmap(it->second.base, it->second.bytes);
    mappings.erase(it);
    --record.shared_tensors;
  }
  return 0;
}

unsigned char* bytes_of(const abi::Tensor& tensor) {
  if (tensor.body.memory == abi::MemoryKind::kRaw) return static_cast<unsigned char*>(tensor.body.buffer.data);
  const auto it = mappings.find(tensor.body.memory_handle);
  return it == mappings.end() ? nullptr : it->second.data;
}

abi::ErrorHandle execute(abi::Handle, const abi::Tensor* inputs, uint32_t input_count, abi::Tensor* outputs,
                         uint32_t output_count, abi::Handle, abi::Handle) {
  if (input_count != 1 || output_count != 1) return 6004;
  const unsigned char* const from = bytes_of(inputs[0]);
  unsigned char* const to = bytes_of(outputs[0]);
  if (from == nullptr || to == nullptr) return 6004;
  record.shared_inputs += inputs[0].body.memory == abi::MemoryKind::kHandle ? 1 : 0;
  uint32_t bytes = 1;
  for (uint32_t i = 0; i < inputs[0].body.rank; ++i) bytes *= inputs[0].body.dimensions[i];
  for (uint32_t i = 0; i < bytes; ++i) to[i] = static_cast<unsigned char>(from[i] + 1);
  return 0;
}

abi::ErrorHandle get_platform(abi::Handle, abi::PlatformInfo** info) {
  static abi::HtpDeviceExtension extension = {};
  static abi::HardwareDevice device = {};
  static abi::PlatformInfo platform = {};
  extension.on_chip = {8, record.soc_model, true, false, record.arch};
  device.version = 1;
  device.body.extension = &extension;
  platform.version = 1;
  platform.body = {1, &device};
  *info = &platform;
  return 0;
}

// Events are identified by their index in the record, from 1 on.
abi::ErrorHandle list_events(const abi::ProfileEventId** events, uint32_t* count) {
  static std::vector<abi::ProfileEventId> ids;
  ids.clear();
  for (size_t i = 0; i < record.events.size(); ++i) ids.push_back(i + 1);
  *events = ids.data();
  *count = static_cast<uint32_t>(ids.size()) + record.more_events;
  return abi::kSuccess;
}

void add_profiles(abi::CoreTable& t) {
  t.profile_create = [](abi::Handle, abi::ProfileLevel, abi::Handle* profile) {
    if (!record.has_profiles) return abi::ErrorHandle{1000};
    ++record.profiles;
    return create_one(profile);
  };
  t.profile_free = [](abi::Handle) {
    --record.profiles;
    return abi::kSuccess;
  };
  t.profile_get_events = [](abi::Handle, const abi::ProfileEventId** events, uint32_t* count) {
    return list_events(events, count);
  };
  t.profile_get_sub_events = [](abi::ProfileEventId, const abi::ProfileEventId** events, uint32_t* count) {
    if (record.events_loop) return list_events(events, count);
    *events = nullptr;
    *count = 0;
    return abi::kSuccess;
  };
  t.profile_get_event_data = [](abi::ProfileEventId event, abi::ProfileEventData* data) {
    if (event == 0 || event > record.events.size()) return abi::ErrorHandle{1000};
    *data = record.events[event - 1];
    return abi::kSuccess;
  };
}

abi::CoreProvider make_provider() {
  abi::CoreProvider provider = {};
  provider.backend_id = abi::kHtpBackendId;
  provider.name = "FAKE";
  provider.core_version = {2, 40, 0};
  provider.backend_version = {5, 51, 0};
  abi::ErrorHandle (*const refuse)() = [] { return abi::ErrorHandle{1000}; };
  auto* const slots = reinterpret_cast<unsigned char*>(&provider.functions);
  for (size_t i = 0; i < sizeof(provider.functions) / sizeof(refuse); ++i) {
    std::memcpy(slots + i * sizeof(refuse), &refuse, sizeof(refuse));
  }
  abi::CoreTable& t = provider.functions;
  t.backend_get_build_id = [](const char** id) {
    *id = "fake";
    return abi::kSuccess;
  };
  t.log_create = [](abi::LogCallback, abi::LogLevel, abi::Handle* log) { return create_one(log); };
  t.log_free = [](abi::Handle) { return abi::kSuccess; };
  t.backend_create = [](abi::Handle, const abi::BackendConfig**, abi::Handle* backend) { return create_one(backend); };
  t.backend_free = [](abi::Handle) { return abi::kSuccess; };
  t.device_create = [](abi::Handle, const abi::DeviceConfig** configs, abi::Handle* device) {
    return create_device(configs, device);
  };
  t.device_free = [](abi::Handle) { return abi::kSuccess; };
  t.device_get_platform_info = get_platform;
  t.device_free_platform_info = [](abi::Handle, abi::PlatformInfo*) { return abi::kSuccess; };
  t.device_get_infrastructure = [](const abi::Infrastructure** infrastructure) {
    static const abi::Infrastructure power = {0, {create_power_id, destroy_power_id, set_power, nullptr}};
    *infrastructure = &power;
    return abi::kSuccess;
  };
  t.context_create_from_binary = [](abi::Handle, abi::Handle, const abi::ContextConfig** configs, const void*, uint64_t,
                                    abi::Handle* context, abi::Handle) { return create_context(configs, context); };
  t.context_free = [](abi::Handle, abi::Handle) {
    --record.contexts;
    return abi::kSuccess;
  };
  t.graph_retrieve = [](abi::Handle, const char*, abi::Handle* graph) { return create_one(graph); };
  t.graph_execute = execute;
  t.memory_register = register_memory;
  t.memory_deregister = deregister_memory;
  add_profiles(t);
  return provider;
}

}  // namespace

FakePhoneRecord* fake_phone_record() { return &record; }

extern "C" abi::ErrorHandle QnnInterface_getProviders(const abi::CoreProvider*** providers, uint32_t* count) {
  static const abi::CoreProvider provider = make_provider();
  static const abi::CoreProvider* list[] = {&provider};
  *providers = list;
  *count = 1;
  return 0;
}

#include "backends/qnn/api/errors.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/format.h"

namespace tandem::qnn {
namespace {

constexpr ErrorCode kArg = ErrorCode::kInvalidArgument;
constexpr ErrorCode kBug = ErrorCode::kInternal;
constexpr ErrorCode kBad = ErrorCode::kCorrupt;
constexpr ErrorCode kNo = ErrorCode::kUnsupported;
constexpr ErrorCode kIo = ErrorCode::kIo;
constexpr ErrorCode kMem = ErrorCode::kResourceExhausted;

constexpr std::string_view kReport = "report it as a bug of tandem, with the log";
constexpr std::string_view kRecompile = "compile the model again";
constexpr std::string_view kSameVersion =
    "compile and run with the same version of the QNN libraries, or compile the model again";
constexpr std::string_view kRestart = "close the model and load it again; restart the device if that does not help";
constexpr std::string_view kPush =
    "put libQnnHtp.so, its stub and its skel for this chip, all of one version, where "
    "the app finds them (the skel by ADSP_LIBRARY_PATH)";

// Sorted by code.
constexpr ErrorText kErrors[] = {
    {1000, "NOT_SUPPORTED", kNo, "this platform's library does not have that feature", ""},
    {1002, "MEM_ALLOC", kMem, "memory ran out, or no kernel was found for an op",
     "see the library's message; if it is memory, use more shards or a smaller context"},
    {1003, "SYSTEM", kIo, "the operating system refused something", "see the log"},
    {1004, "INVALID_ARGUMENT", kBug, "an argument was refused", kReport},
    {1005, "NOT_PERMITTED", kBug, "the call is not allowed in this state", kReport},
    {1006, "PLATFORM_NOT_SUPPORTED", kNo, "the library does not run on this platform", "choose another target"},
    {1007, "COMMUNICATION", kIo, "the connection to the DSP failed", kRestart},
    {1008, "INCOMPATIBLE_BINARIES", kNo, "the libraries on the CPU side and on the DSP side do not match", kPush},
    {1009, "LOADING_BINARIES", ErrorCode::kNotFound, "the stub or skel library could not be loaded", kPush},
    {1010, "RESOURCE_UNAVAILABLE", kMem, "a resource of the DSP is missing or busy",
     "close other apps that use the NPU, or try again"},
    {1011, "COMMUNICATION_FATAL", kIo, "the DSP was restarted and everything on it is gone", kRestart},
    {1100, "GENERAL", kBug, "the accelerator failed, for instance on an index outside of a table", "see the log"},
    {2000, "UNKNOWN_KEY", kBug, "the library does not know the property asked for", kReport},
    {3000, "LIBRARY_ALREADY_INITIALIZED", kBug, "an op package was initialized twice", kReport},
    {3001, "LIBRARY_NOT_INITIALIZED", kBug, "an op package was not initialized", kReport},
    {3002, "INVALID_HANDLE", kBug, "the handle of an op package is not valid", kReport},
    {3100, "INVALID_INFRASTRUCTURE", kBug, "the infrastructure of an op package is not valid", kReport},
    {3101, "INVALID_INFO", kBug, "the description of an op package is not valid", kReport},
    {3110, "VALIDATION_FAILURE", kNo, "the op was rejected for this architecture",
     "see the library's message for the operand that it does not take"},
    {3200, "INVALID_ARGUMENT", kBug, "an op package refused an argument", kReport},
    {4000, "CANNOT_INITIALIZE", kIo, "the back end could not start", "see the log"},
    {4002, "TERMINATE_FAILED", kIo, "the back end could not be closed", "see the log"},
    {4003, "NOT_SUPPORTED", kNo, "the back end does not have that feature", ""},
    {4004, "INVALID_ARGUMENT", kBug, "the back end refused an argument", kReport},
    {4005, "OP_PACKAGE_NOT_FOUND", kNo, "the library does not know that op or its package",
     "use the version of the QNN libraries that tandem was written for"},
    {4006, "PACKAGE_PROVIDER_NOT_FOUND", kBug, "an op package has no provider", kReport},
    {4007, "PACKAGE_REGISTRATION_FAILED", kBug, "an op package could not be registered", kReport},
    {4008, "PACKAGE_UNSUPPORTED_VERSION", kBug, "an op package has another version", kReport},
    {4009, "PACKAGE_DUPLICATE", kBug, "an op package is already registered", kReport},
    {4010, "INCONSISTENT_CONFIG", kBug, "options of the back end contradict each other", kReport},
    {4011, "INVALID_HANDLE", kBug, "the back end's handle is not valid", kReport},
    {4012, "INVALID_CONFIG", kBug, "an option of the back end was refused", kReport},
    {5000, "INVALID_ARGUMENT", kArg, "the context refused an argument, for instance an empty binary", kRecompile},
    {5001, "CONTEXT_DOES_NOT_EXIST", kBug, "there is no such context", kReport},
    {5002, "INVALID_HANDLE", kBug, "the context's handle is not valid or was freed", kReport},
    {5003, "NOT_FINALIZED", kBug, "a graph of the context is not finalized", kReport},
    {5004, "BINARY_VERSION", kNo, "the context binary is of a version that this library does not read", kSameVersion},
    {5005, "CREATE_FROM_BINARY", kBad, "the context binary was refused or is damaged", kRecompile},
    {5006, "GET_BINARY_SIZE_FAILED", kBug, "the size of the context binary could not be found", "see the log"},
    {5007, "GET_BINARY_FAILED", kBad, "the context binary could not be written or, at load, is damaged", kRecompile},
    {5008, "BINARY_CONFIGURATION", kNo, "the context binary was made with options that do not fit here", kSameVersion},
    {5009, "SET_PROFILE", kBug, "profiling could not be set up", kReport},
    {5010, "INVALID_CONFIG", kNo, "an option of the context was refused",
     "the platform does not have it, or the first context of its group is gone"},
    {5011, "BINARY_SUBOPTIMAL", kNo, "the context binary was made for another chip and would be slow",
     "compile the model for this chip"},
    {5012, "ABORTED", ErrorCode::kCancelled, "the work on the context was stopped by a signal", ""},
    {5013, "TIMED_OUT", kIo, "the work on the context took too long", kRestart},
    {5014, "INVALID_INCREMENT", kBug, "a part of a binary belongs to another context", kReport},
    {6000, "INVALID_ARGUMENT", kBug, "the graph refused an argument or option", kReport},
    {6001, "INVALID_HANDLE", kBug, "the graph's handle is not valid", kReport},
    {6002, "GRAPH_DOES_NOT_EXIST", ErrorCode::kNotFound, "the context has no graph of that name", kRecompile},
    {6003, "INVALID_NAME", kArg, "the graph's name is empty or already taken", "give each graph a name of its own"},
    {6004, "INVALID_TENSOR", kBug, "a tensor is missing, has no data or is of another graph", kReport},
    {6005, "INVALID_OP_CONFIG", kNo, "the op was refused by the graph", "choose a newer target or another recipe"},
    {6006, "SET_PROFILE", kBug, "profiling could not be set up", kReport},
    {6007, "UNCONNECTED_NODE", kBug, "an op was added before what it reads", kReport},
    {6020, "CREATE_FAILED", kIo, "the graph could not be created", "see the log"},
    {6021, "OPTIMIZATION_FAILED", kNo, "the graph could not be optimized", "see the log"},
    {6022, "FINALIZE_FAILED", kBug, "the graph is empty or has a tensor that nothing uses", kReport},
    {6023, "NOT_FINALIZED", kBug, "the graph is not finalized", kReport},
    {6024, "ALREADY_FINALIZED", kBug, "the graph is finalized and cannot be changed", kReport},
    {6025, "QUEUE_FULL", kMem, "the queue of executions is full", "wait for earlier ones"},
    {6030, "SIGNAL_IN_USE", kBug, "the signal is in use", kReport},
    {6031, "ABORTED", ErrorCode::kCancelled, "the execution was stopped by a signal", ""},
    {6032, "PROFILE_IN_USE", kBug, "the profile is in use", kReport},
    {6033, "TIMED_OUT", kIo, "the execution took too long", kRestart},
    {6034, "SUBGRAPH", kBug, "the call is not for subgraphs", kReport},
    {6035, "DISABLED", kArg, "the graph was left out when the context was loaded", "enable it at load"},
    {6036, "DYNAMIC_SHAPE", kBug, "a dynamic shape is wrong", kReport},
    {6037, "SPARSITY", kBug, "a sparse tensor is wrong", kReport},
    {6038, "EARLY_TERMINATION", kIo, "the execution ended early", kRestart},
    {6039, "INVALID_CONTEXT", kBug, "the graph's context is not valid", kReport},
    {7001, "INVALID_HANDLE", kBug, "the tensor's graph is not valid", kReport},
    {7002, "DOES_NOT_EXIST", ErrorCode::kNotFound, "there is no such tensor", kReport},
    {7003, "ALREADY_EXISTS", kArg, "the name of the tensor is already used in the graph", "give each its own name"},
    {7004, "INVALID_PARAM", kNo, "the tensor's type or encoding is not taken by HTP", "choose another recipe"},
    {7005, "UNSUPPORTED_PARAM", kNo, "the tensor's type or encoding is not supported", "choose another recipe"},
    {7006, "NAME_HASH_COLLISION", kArg, "the hash of the tensor's name is already taken", "rename the tensor"},
    {7007, "INCOMPATIBLE_UPDATE", kBug, "the tensor cannot be updated so", kReport},
    {8000, "INVALID_ARGUMENT", kBug, "registering memory: an argument was refused", kReport},
    {8001, "INVALID_HANDLE", kBug, "the memory's handle is not valid", kReport},
    {8002, "ALREADY_REGISTERED", kBug, "the memory is already registered", kReport},
    {8003, "MAPPING", kMem, "the memory could not be mapped for the DSP", "free memory, or use fewer shared buffers"},
    {8004, "INVALID_SHAPE", kBug, "the shape or alignment of the memory is not taken", kReport},
    {8005, "UNSUPPORTED_MEMORY", kNo, "this kind of memory is not supported", "run without shared buffers"},
    {9000, "SIGNAL_IN_USE", kBug, "the signal is in use", kReport},
    {9001, "SIGNAL_IDLE", kBug, "the signal is not in use", kReport},
    {9002, "INVALID_ARGUMENT", kBug, "the signal refused an argument", kReport},
    {9003, "INVALID_HANDLE", kBug, "the signal's handle is not valid", kReport},
    {9004, "TIMEOUT", kIo, "the signal's time is over", ""},
    {9005, "INCOMPATIBLE_SIGNAL", kBug, "the signal is of another kind", kReport},
    {11002, "INITIALIZATION", kIo, "the library's log could not start", "see the log"},
    {11003, "INVALID_ARGUMENT", kBug, "the library's log refused an argument", kReport},
    {11004, "INVALID_HANDLE", kBug, "the log's handle is not valid", kReport},
    {12000, "INVALID_HANDLE", kBug, "the profile's handle is not valid", kReport},
    {12001, "HANDLE_IN_USE", kBug, "the profile is in use", kReport},
    {12002, "INCOMPATIBLE_EVENT", kBug, "the profile's event is of another kind", kReport},
    {13000, "INVALID_HANDLE_POINTER", kBug, "setting the power profile: no place for the answer", kReport},
    {13001, "INVALID_INPUT", kBug, "setting the power profile: an argument was refused", kReport},
    {13002, "UNSUPPORTED_CONFIG", kNo, "the power profile is not supported here", "choose another performance profile"},
    {13003, "TRANSPORT", kIo, "setting the power profile: the connection to the DSP failed", kRestart},
    {13004, "UNSUPPORTED", kNo, "power profiles are not supported here", "run without a performance profile"},
    {13005, "MEM_ALLOC", kMem, "setting the power profile: memory ran out", ""},
    {13006, "FAILED", kIo, "the power profile could not be set", kRestart},
    {14000, "INVALID_HANDLE", kBug, "the device's handle is not valid", kReport},
    {14001, "INVALID_CONFIG", kNo, "the library does not know this SoC", "choose a target that `tandem targets` lists"},
    {14002, "HARDWARE_UNAVAILABLE", kIo, "the NPU is not available", "check that this device has one and may use it"},
    {14003, "IN_USE_BY_CONTEXT", kBug, "a context still uses the device", kReport},
    {15000, "INVALID_CONFIG", kBug, "a process-wide option was refused", kReport},
    {30000, "INVALID_HANDLE", kBug, "the handle of the binary's description is not valid", kReport},
    {30001, "INVALID_ARGUMENT", kBad, "the context binary is empty or is none", kRecompile},
    {30002, "OPERATION_FAILED", kBad, "the context binary could not be described", kRecompile},
    {30010, "MALFORMED_BINARY", kBad, "these bytes are no context binary, or a truncated one", kRecompile},
};
static_assert(std::ranges::is_sorted(kErrors, {}, &ErrorText::code));

}  // namespace

const ErrorText* find_error(uint32_t code) {
  const auto* const found = std::ranges::lower_bound(kErrors, code, {}, &ErrorText::code);
  return found != std::end(kErrors) && found->code == code ? found : nullptr;
}

Error describe_error(abi::ErrorHandle result, std::string_view doing, const std::string& library_said) {
  const auto code = static_cast<uint32_t>(result & abi::kErrorCodeMask);
  const ErrorText* const text = find_error(code);
  Error error;
  if (text == nullptr) {
    error = internal_error("{}: QNN answered {}, a code that tandem does not know (see the log)", doing, code);
  } else {
    error = {text->kind, str_format("{}: {} (QNN {} {})", doing, text->what, code, text->name)};
    if (!text->what_next.empty()) error.message += str_format("; {}", text->what_next);
  }
  if (!library_said.empty()) error.message += str_format(". The library says: {}", library_said);
  return error;
}

}  // namespace tandem::qnn

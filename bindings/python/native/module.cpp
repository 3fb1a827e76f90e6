// The extension module tandem._native: the library's classes as the package tandem uses them. The package checks and
// converts what users give; here only the library's own errors are left to report.
#include "conversions.h"
#include "failure.h"
#include "handles.h"
#include "tandem/compile.h"
#include "tandem/mapping_guard.h"
#include "tandem/probe.h"
#include "tandem/version.h"

namespace tandem::python {
namespace {

// The classes of tandem._errors by code. Never freed: the interpreter may be gone before the last translation.
nb::dict* g_errors = nullptr;

void translate(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const Failure& failure) {
    const nb::object type = (*g_errors)[error_code_name(failure.error().code)];
    PyErr_SetObject(type.ptr(), to_str(failure.error().message).ptr());
  }
}

// ---- Engine ----

EngineOptions engine_options(int threads, int verify, int log_level, BackendOptions backend, std::string run_on,
                             std::string decode_on) {
  EngineOptions options;
  options.threads = threads;
  options.verify = static_cast<VerifyWeights>(verify);
  options.log = push_log;
  options.log_level = static_cast<LogLevel>(log_level);
  options.backend = std::move(backend);
  options.run_on = std::move(run_on);
  options.decode_on = std::move(decode_on);
  return options;
}

// Calls use(path or region) for what Python calls a place: the path of a whole file as bytes, or a part of an open one.
template <typename Use>
auto at_place(const nb::object& place, const Use& use) {
  FileRegion region;
  if (nb::try_cast(place, region)) {
    const Unlocked unlocked;
    return use(region);
  }
  const std::filesystem::path path = place.is_none() ? "" : to_path(nb::cast<nb::bytes>(place));
  const Unlocked unlocked;
  return use(path);
}

std::shared_ptr<EngineHandle> load(const nb::object& place, int threads, int verify, int log_level,
                                   BackendOptions backend, std::string run_on, std::string decode_on) {
  const EngineOptions options =
      engine_options(threads, verify, log_level, std::move(backend), std::move(run_on), std::move(decode_on));
  return std::make_shared<EngineHandle>(
      take(at_place(place, [&](const auto& file) { return Engine::load(file, options); })));
}

nb::str probe_place(const nb::object& place, int threads, int verify, int log_level, BackendOptions backend,
                    std::string run_on, std::string decode_on) {
  const EngineOptions options =
      engine_options(threads, verify, log_level, std::move(backend), std::move(run_on), std::move(decode_on));
  return to_str(take(at_place(place, [&](const auto& file) { return probe(file, options); })).to_json());
}

const std::shared_ptr<Engine>& open_engine(const EngineHandle& handle) {
  check_process(handle.pid);
  if (!handle.engine) throw Failure({ErrorCode::kInvalidArgument, "the engine is closed; load the file again"});
  return handle.engine;
}

void close_engine(EngineHandle& handle) {
  if (handle.pid != ::getpid()) return;
  std::shared_ptr<Engine> engine = std::move(handle.engine);
  const Unlocked unlocked;
  engine.reset();
}

std::shared_ptr<SessionHandle> new_session(const std::shared_ptr<EngineHandle>& handle) {
  const std::shared_ptr<Engine> engine = open_engine(*handle);
  const Unlocked unlocked;
  // A handle of its own, so that closing the engine's does not end what a session has begun.
  return std::make_shared<SessionHandle>(std::make_shared<EngineHandle>(engine), take(engine->new_session()));
}

std::vector<int32_t> encode(const EngineHandle& handle, const std::string& text, bool add_special, bool parse_special) {
  const std::shared_ptr<Engine> engine = open_engine(handle);
  const Unlocked unlocked;
  return take(engine->encode(text, add_special, parse_special));
}

nb::str decode(const EngineHandle& handle, const nb::bytes& bytes, bool skip_special) {
  const std::shared_ptr<Engine> engine = open_engine(handle);
  const std::vector<int32_t> tokens = to_tokens(bytes);
  std::string text;
  {
    const Unlocked unlocked;
    text = take(engine->decode(tokens, skip_special));
  }
  return to_str(text);
}

std::vector<int32_t> encode_chat(const EngineHandle& handle, std::vector<MessageTuple> given,
                                 bool add_generation_prompt, const std::string& variables, bool parse_special) {
  const std::shared_ptr<Engine> engine = open_engine(handle);
  const std::vector<Message> messages = to_messages(std::move(given));
  const Unlocked unlocked;
  return take(engine->encode_chat(messages, add_generation_prompt, variables, parse_special));
}

nb::str render_chat(const EngineHandle& handle, std::vector<MessageTuple> given, bool add_generation_prompt,
                    const std::string& variables) {
  const std::shared_ptr<Engine> engine = open_engine(handle);
  const std::vector<Message> messages = to_messages(std::move(given));
  std::string text;
  {
    const Unlocked unlocked;
    text = take(engine->render_chat(messages, add_generation_prompt, variables));
  }
  return to_str(text);
}

void bind_engine(nb::module_& m) {
  nb::class_<FileRegion>(m, "FileRegion")
      .def(
          "__init__",
          [](FileRegion* region, int descriptor, int64_t offset, int64_t length) {
            new (region) FileRegion{descriptor, offset, length};
          },
          nb::arg("descriptor"), nb::arg("offset"), nb::arg("length"));
  m.def("probe", &probe_place, nb::arg("place").none(), nb::arg("threads"), nb::arg("verify"), nb::arg("log_level"),
        nb::arg("backend"), nb::arg("run_on"), nb::arg("decode_on"),
        nb::sig("def probe(place: bytes | FileRegion | None, threads: int, verify: int, log_level: int, backend: "
                "Mapping[str, str], run_on: str, decode_on: str) -> str"));
  nb::class_<EngineHandle>(m, "Engine")
      .def_static("load", &load, nb::arg("place"), nb::arg("threads"), nb::arg("verify"), nb::arg("log_level"),
                  nb::arg("backend"), nb::arg("run_on"), nb::arg("decode_on"),
                  nb::sig("def load(place: bytes | FileRegion, threads: int, verify: int, log_level: int, backend: "
                          "Mapping[str, str], run_on: str, decode_on: str) -> Engine"))
      .def("close", &close_engine)
      .def("closed", [](const EngineHandle& e) { return e.engine == nullptr; })
      .def("new_session", &new_session)
      .def("mode", [](const EngineHandle& e) { return std::string(mode_name(open_engine(e)->mode())); })
      .def("target", [](const EngineHandle& e) { return std::string(open_engine(e)->target()); })
      .def("backend", [](const EngineHandle& e) { return std::string(open_engine(e)->backend()); })
      .def("context", [](const EngineHandle& e) { return open_engine(e)->context(); })
      .def("vocab_size", [](const EngineHandle& e) { return open_engine(e)->vocab_size(); })
      .def("hidden_size", [](const EngineHandle& e) { return open_engine(e)->hidden_size(); })
      .def("threads", [](const EngineHandle& e) { return open_engine(e)->threads(); })
      .def("has_tokenizer", [](const EngineHandle& e) { return open_engine(e)->has_tokenizer(); })
      .def("eos_tokens",
           [](const EngineHandle& e) {
             const auto tokens = open_engine(e)->eos_tokens();
             return std::vector<int32_t>(tokens.begin(), tokens.end());
           })
      .def("default_options", [](const EngineHandle& e) { return open_engine(e)->default_options(); })
      .def("encode", &encode, nb::arg("text"), nb::arg("add_special"), nb::arg("parse_special"))
      .def("decode", &decode, nb::arg("tokens"), nb::arg("skip_special"))
      .def("encode_chat", &encode_chat, nb::arg("messages"), nb::arg("add_generation_prompt"), nb::arg("variables"),
           nb::arg("parse_special"))
      .def("render_chat", &render_chat, nb::arg("messages"), nb::arg("add_generation_prompt"), nb::arg("variables"));
}

}  // namespace

NB_MODULE(_native, m) {
  // Objects in a traceback or a global outlive the module's end; that is no leak worth a message on the terminal.
  nb::set_leak_warnings(false);
  watch_forks();
  m.def(
      "register_errors", [](const nb::dict& classes) { g_errors = new nb::dict(classes); }, nb::arg("classes"),
      nb::sig("def register_errors(classes: Mapping[str, typing.Any]) -> None"));
  nb::register_exception_translator(&translate);

  m.def("version", [] { return std::string(version()); });
  m.def("shut_down", &shut_down);
  m.def(
      "push_log",  // For tests.
      [](int level, const nb::bytes& message) {
        push_log(static_cast<LogLevel>(level), std::string_view(message.c_str(), message.size()));
      },
      nb::arg("level"), nb::arg("message"));
  m.def(
      "take_log",
      [] {
        nb::list messages;
        for (const auto& [level, text] : take_log())
          messages.append(nb::make_tuple(static_cast<int>(level), to_str(text)));
        return messages;
      },
      nb::sig("def take_log() -> list[tuple[int, str]]"));
  m.def("guard_file_mappings", [] {
    check(guard_file_mappings());
    check(guard_compiler_mappings());
  });
  bind_engine(m);
  bind_options(m);
  bind_session(m);
  bind_compile(m);
}

}  // namespace tandem::python

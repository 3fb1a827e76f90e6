#include "calls.h"
#include "conversions.h"

namespace tandem::python {

namespace {

void bind_compile_options(nb::module_& m) {
  nb::class_<CompileModelOptions>(m, "CompileOptions")
      .def(nb::init<>())
      .def_rw("target", &CompileModelOptions::target)
      .def_rw("prefill", &CompileModelOptions::prefill)
      .def_rw("decode_only", &CompileModelOptions::decode_only)
      .def_rw("context", &CompileModelOptions::context)
      .def_rw("recipe", &CompileModelOptions::recipe)
      .def_rw("kv", &CompileModelOptions::kv)
      .def_rw("activations", &CompileModelOptions::activations)
      .def_rw("head", &CompileModelOptions::head)
      .def_rw("rescore", &CompileModelOptions::rescore)
      .def_rw("tune", &CompileModelOptions::tune)
      .def_rw("bits", &CompileModelOptions::bits)
      .def_rw("backend", &CompileModelOptions::backend)
      .def_rw("threads", &CompileModelOptions::threads)
      .def_rw("config", &CompileModelOptions::config)
      .def_rw("force", &CompileModelOptions::force)
      .def(
          "set_log_level", [](CompileModelOptions& o, int level) { o.log_level = static_cast<LogLevel>(level); },
          nb::arg("level"))
      .def(
          "set_calibration_path",
          [](CompileModelOptions& o, const std::string& name, const nb::bytes& path) {
            CalibrationSettings& c = o.calibration;
            (name == "file"               ? c.file
             : name == "import_encodings" ? c.import_encodings
             : name == "export_encodings" ? c.export_encodings
                                          : c.report) = to_path(path);
          },
          nb::arg("name"), nb::arg("path"))
      .def(
          "set_calibration",
          [](CompileModelOptions& o, const std::string& task, const std::string& prompt, int64_t samples,
             int64_t length, const std::string& range) {
            o.calibration.task = task;
            o.calibration.prompt = prompt;
            o.calibration.samples = samples;
            o.calibration.length = length;
            o.calibration.range = range;
          },
          nb::arg("task"), nb::arg("prompt"), nb::arg("samples"), nb::arg("length"), nb::arg("range"));
}

}  // namespace

void bind_compile(nb::module_& m) {
  bind_compile_options(m);
  nb::class_<Compilation> compilation(m, "Compilation");
  bind_stopping(compilation);
  compilation
      .def_static(
          "start",
          [](const nb::bytes& checkpoint, const nb::bytes& output, const CompileModelOptions& options) {
            auto call = std::make_shared<Compilation>(to_path(checkpoint), to_path(output), options);
            call->start();
            return call;
          },
          nb::arg("checkpoint"), nb::arg("output"), nb::arg("options"))
      .def(
          "next",
          [](Compilation& call, int milliseconds) -> nb::object {
            const auto events = call.next(std::chrono::milliseconds(milliseconds));
            if (!events) return nb::none();
            nb::list list;
            for (const CompileProgress& p : *events) list.append(nb::make_tuple(to_str(p.stage), p.done, p.total));
            return list;
          },
          nb::arg("milliseconds"), nb::sig("def next(self, milliseconds: int) -> list[tuple[str, int, int]] | None"))
      .def(
          "result",
          [](const Compilation& call) {
            const CompiledModel& model = call.result();
            nb::dict fields;
            fields["file_bytes"] = model.file_bytes;
            fields["weight_bytes"] = model.weight_bytes;
            fields["parameters"] = model.parameters;
            fields["context"] = model.context;
            fields["methods"] = model.methods;
            fields["weight_sqnr_db"] = model.weight_sqnr_db;
            fields["warnings"] = model.warnings;
            nb::list programs;
            for (const CompiledProgram& program : model.programs) {
              programs.append(nb::make_tuple(program.target, program.bytes, program.shared_bytes, program.methods));
            }
            fields["programs"] = programs;
            return fields;
          },
          nb::sig("def result(self) -> dict[str, typing.Any]"));
}

}  // namespace tandem::python

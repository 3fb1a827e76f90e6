#include <nanobind/ndarray.h>

#include "calls.h"
#include "conversions.h"

namespace tandem::python {
namespace {

std::shared_ptr<Generation> generate(const std::shared_ptr<SessionHandle>& session, Prompt prompt,
                                     const GenerateOptions& options) {
  auto call = std::make_shared<Generation>(session, std::move(prompt), options);
  session->begin(call);
  return call;
}

nb::object next_piece(Generation& call, int milliseconds) {
  Piece piece;
  switch (call.next(std::chrono::milliseconds(milliseconds), piece)) {
    case Generation::Event::kPiece: return nb::make_tuple(piece.is_reasoning, to_str(piece.text));
    case Generation::Event::kDone: return nb::bool_(true);
    case Generation::Event::kNothingYet: break;
  }
  return nb::none();
}

nb::dict generation_result(Generation& call) {
  const GenerateResult& result = call.result();
  nb::dict fields;
  fields["text"] = to_str(result.text);
  fields["tokens"] = result.tokens;
  fields["finish_reason"] = finish_reason_name(result.finish);
  fields["stop_string"] = to_str(result.stop_string);
  fields["reasoning"] = to_str(result.reasoning);
  fields["prompt_tokens"] = result.prompt_tokens;
  fields["reused_tokens"] = result.reused_tokens;
  fields["prompt_seconds"] = result.prompt_seconds;
  fields["first_token_seconds"] = result.first_token_seconds;
  fields["decode_seconds"] = result.decode_seconds;
  return fields;
}

using LogitsArray = nb::ndarray<nb::numpy, float, nb::ndim<2>, nb::c_contig>;

std::optional<LogitsArray> scoring_result(const Scoring& call) {
  call.check_result();
  if (call.row_count() == 0) return std::nullopt;
  const nb::capsule owner(new std::shared_ptr<float[]>(call.logits()),
                          [](void* p) noexcept { delete static_cast<std::shared_ptr<float[]>*>(p); });
  return LogitsArray(call.logits().get(), {static_cast<size_t>(call.row_count()), static_cast<size_t>(call.columns())},
                     owner);
}

}  // namespace

void bind_options(nb::module_& m) {
#define TANDEM_SAMPLER_FIELD(name)                                    \
  def_prop_rw(                                                        \
      #name, [](const GenerateOptions& o) { return o.sampler.name; }, \
      [](GenerateOptions& o, decltype(SamplerOptions::name) value) { o.sampler.name = value; })
  nb::class_<GenerateOptions>(m, "GenerateOptions")
      .TANDEM_SAMPLER_FIELD(temperature)
      .TANDEM_SAMPLER_FIELD(top_k)
      .TANDEM_SAMPLER_FIELD(top_p)
      .TANDEM_SAMPLER_FIELD(min_p)
      .TANDEM_SAMPLER_FIELD(repetition_penalty)
      .TANDEM_SAMPLER_FIELD(repetition_window)
      .TANDEM_SAMPLER_FIELD(seed)
      .def_rw("max_new_tokens", &GenerateOptions::max_new_tokens)
      .def_rw("stop_strings", &GenerateOptions::stop_strings)
      .def_rw("ignore_eos", &GenerateOptions::ignore_eos)
      .def_rw("template_variables", &GenerateOptions::template_variables)
      .def_rw("parse_special", &GenerateOptions::parse_special);
#undef TANDEM_SAMPLER_FIELD
}

void bind_session(nb::module_& m) {
  nb::class_<Generation> generation(m, "Generation");
  bind_stopping(generation);
  generation
      .def("next", &next_piece, nb::arg("milliseconds"),
           nb::sig("def next(self, milliseconds: int) -> tuple[bool, str] | bool | None"))
      .def("finish", &Generation::finish)
      .def("result", &generation_result, nb::sig("def result(self) -> dict[str, typing.Any]"));

  nb::class_<Scoring> scoring(m, "Scoring");
  bind_stopping(scoring);
  scoring.def("result", &scoring_result, nb::sig("def result(self) -> NDArray[numpy.float32] | None"));

  using Handle = std::shared_ptr<SessionHandle>;
  nb::class_<SessionHandle>(m, "Session")
      .def(
          "generate",
          [](const Handle& session, const nb::bytes& tokens, bool from_start, const GenerateOptions& options) {
            const auto kind = from_start ? Prompt::Kind::kFrom : Prompt::Kind::kAppend;
            return generate(session, {.kind = kind, .tokens = to_tokens(tokens)}, options);
          },
          nb::arg("tokens"), nb::arg("from_start"), nb::arg("options"))
      .def(
          "generate_chat",
          [](const Handle& session, std::vector<MessageTuple> messages, const GenerateOptions& options) {
            return generate(session, {.kind = Prompt::Kind::kChat, .messages = to_messages(std::move(messages))},
                            options);
          },
          nb::arg("messages"), nb::arg("options"))
      .def(
          "score",
          [](const Handle& session, const nb::bytes& tokens, int rows) {
            auto call = std::make_shared<Scoring>(session, to_tokens(tokens), static_cast<Scoring::Rows>(rows));
            session->begin(call);
            return call;
          },
          nb::arg("tokens"), nb::arg("rows"))
      .def("cancel", [](const Handle& session) { session->cancel(); })
      .def("clear_cancel", [](const Handle& session) { session->clear_cancel(); })
      .def("close", [](const Handle& session) { session->close(); })
      .def("closed", [](const Handle& session) { return session->closed(); })
      .def("tokens", [](const Handle& session) { return session->tokens(); })
      .def(
          "rewind", [](const Handle& session, int64_t length) { session->rewind(length); }, nb::arg("length"));
}

}  // namespace tandem::python

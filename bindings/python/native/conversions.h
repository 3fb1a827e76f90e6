// Between the library's types and Python's, for the files that define the module.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "tandem/message.h"

namespace nb = nanobind;

namespace tandem::python {

// Text of the model's is UTF-8; should it not be, a bad byte is shown as such and costs no more.
inline nb::str to_str(std::string_view text) {
  PyObject* const object = PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
  if (object == nullptr) throw nb::python_error();
  return nb::steal<nb::str>(object);
}

inline std::filesystem::path to_path(const nb::bytes& path) { return std::string(path.c_str(), path.size()); }

// Tokens as the bytes of an array of 32-bit integers.
inline std::vector<int32_t> to_tokens(const nb::bytes& bytes) {
  std::vector<int32_t> tokens(bytes.size() / sizeof(int32_t));
  if (!tokens.empty()) std::memcpy(tokens.data(), bytes.c_str(), tokens.size() * sizeof(int32_t));
  return tokens;
}

using MessageTuple = std::tuple<std::string, std::string, std::string>;  // Role, content, further fields.

inline std::vector<Message> to_messages(std::vector<MessageTuple> given) {
  std::vector<Message> messages;
  for (auto& [role, content, fields] : given) {
    messages.push_back({std::move(role), std::move(content), std::move(fields)});
  }
  return messages;
}

// What all calls on threads of their own have.
template <typename Call>
void bind_stopping(nb::class_<Call>& type) {
  type.def("request_stop", [](Call& call) { call.request_stop(); })
      .def(
          "wait_done",
          [](Call& call, int milliseconds) { return call.wait_done(std::chrono::milliseconds(milliseconds)); },
          nb::arg("milliseconds"));
}

// Each defines a part of the module.
void bind_options(nb::module_& m);
void bind_session(nb::module_& m);
void bind_compile(nb::module_& m);

}  // namespace tandem::python

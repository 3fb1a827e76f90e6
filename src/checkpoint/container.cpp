#include "checkpoint/container.h"

#include "base/error.h"
#include "checkpoint/hub/safetensors.h"

namespace tandem {

Status Container::add(std::string name, StoredTensor tensor, std::string_view what, std::string_view own_name) {
  if (Status checked = tensor.check(); !checked.ok()) {
    return with_context(std::move(checked).error(), "{}: tensor \"{}\"", what, printable_name(own_name));
  }
  if (!tensors.emplace(std::move(name), std::move(tensor)).second) {
    return corrupt("{}: tensor \"{}\" is there twice", what, printable_name(own_name));
  }
  return ok_status();
}

}  // namespace tandem

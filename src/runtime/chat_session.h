// Sessions: a KV cache, the tokens in it, and the loop that generates.
#pragma once

#include <memory>

#include "runtime/loaded_engine.h"

namespace tandem {

Result<std::unique_ptr<Session>> make_session(std::shared_ptr<LoadedEngine> engine);

}  // namespace tandem

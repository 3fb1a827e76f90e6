// The rope settings of config.json in their three styles; used by ModelConfig::from_json only.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/hub/config_reader.h"
#include "checkpoint/hub/model_config.h"

namespace tandem {

// Fills config.rope and config.local_rope from `reader` (the top of config.json); unread keys of the rope objects are
// added to config.unread_keys. config.head_dim and max_position_embeddings must be there already.
Status read_rope(ConfigReader& reader, ModelConfig& config);

}  // namespace tandem

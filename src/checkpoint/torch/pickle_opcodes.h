// Names of pickle opcodes, for errors.
#pragma once

#include <cstdint>
#include <string>

namespace tandem {

// "GLOBAL"; "0x07" for what no version of Python writes.
std::string pickle_opcode_name(uint8_t code);

}  // namespace tandem

// The version of the library that runs, which may be another one than that of the headers.
#pragma once

#include "tandem/export.h"

namespace tandem {

TANDEM_API const char* version();  // "0.1.0"

}  // namespace tandem

// TANDEM_UNROLL before a loop whose count is a template parameter: register tiles only stay in registers when such
// loops are fully unrolled.
#pragma once

#if defined(__clang__)
#define TANDEM_UNROLL _Pragma("clang loop unroll(full)")
#else
#define TANDEM_UNROLL _Pragma("GCC unroll 32")
#endif

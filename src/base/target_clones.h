// TANDEM_CLONES before a function compiles it for several instruction sets; the loader picks one (glibc's ifunc).
// Sanitizers run before ifuncs are resolved, so their builds use the plain version.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__clang__)
#define TANDEM_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TANDEM_CLONES
#endif

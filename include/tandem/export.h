// TANDEM_API marks what libtandem.so and libtandem-compiler.so export. Everything else in them is hidden.
#pragma once

#define TANDEM_API __attribute__((visibility("default")))

// Exceptions end where an app calls us. tandem's own code does not throw, but what it uses does: memory runs out, the
// system has no more threads, and an app's callback may throw anything.
#pragma once

#include <cxxabi.h>

#include <exception>
#include <new>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "tandem/status.h"

namespace tandem {

#ifdef __GLIBCXX__
using ForcedUnwind = abi::__forced_unwind;  // A thread is being cancelled; glibc insists that this is rethrown.
#else
class ForcedUnwind {};
#endif

// kResourceExhausted; allocates nothing if there is no memory.
Error out_of_memory() noexcept;
// kResourceExhausted, for a thread, a lock or a file handle that the system refused.
Error out_of_system_resources(const std::system_error& error);
// kInvalidArgument: the app's callback threw.
Error callback_threw(const char* what);
// kInternal: an unexpected exception.
Error unexpected_exception(const char* what);

// Returns what call() returns, a Status or a Result; an exception becomes its error. Destructors must leave what call()
// had begun in order.
template <typename Call>
auto guarded(Call&& call) -> decltype(call()) {
  try {
    return std::forward<Call>(call)();
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  } catch (const std::length_error&) {  // A container was asked for more than any memory could hold.
    return out_of_memory();
  } catch (const std::system_error& error) {
    return out_of_system_resources(error);
  } catch (const std::exception& error) {
    return unexpected_exception(error.what());
  } catch (const ForcedUnwind&) {
    throw;
  } catch (...) {
    return unexpected_exception("of an unknown type");
  }
}

// The same around an app's callback. Running out of memory is passed on to guarded(), as in our own code.
template <typename Call>
auto guarded_callback(Call&& call) -> Result<decltype(call())> {
  try {
    return std::forward<Call>(call)();
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    return callback_threw(error.what());
  } catch (const ForcedUnwind&) {
    throw;
  } catch (...) {
    return callback_threw("of an unknown type");
  }
}

}  // namespace tandem

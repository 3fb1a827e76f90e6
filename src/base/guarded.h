// Exceptions end where an app calls us. No code of tandem throws, but what it uses does: memory runs out, the system
// gives no more threads, and an app's own callback may throw what it likes.
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
using ForcedUnwind = abi::__forced_unwind;  // A thread is being ended; glibc insists that this goes on.
#else
class ForcedUnwind {};
#endif

// kResourceExhausted; made without memory where there is none.
Error out_of_memory() noexcept;
// kResourceExhausted, for a thread, a lock or a file handle that the system did not give.
Error out_of_system_resources(const std::system_error& error);
// kInvalidArgument: the app's callback threw.
Error callback_threw(const char* what);
// kInternal: an exception that nobody expected.
Error unexpected_exception(const char* what);

// Gives what call() gives, a Status or a Result; an exception becomes its error. What call() had begun must be left in
// order by destructors.
template <typename Call>
auto guarded(Call&& call) -> decltype(call()) {
  try {
    return std::forward<Call>(call)();
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  } catch (const std::length_error&) {  // A container that was asked for more than any memory could hold.
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

// The same around a callback of the app. Lack of memory goes on to guarded(), as our own does.
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

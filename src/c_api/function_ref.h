// A function or lambda passed down as two pointers: what takes one is compiled once and not for every lambda.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace tandem::c_api {

template <typename Signature>
class FunctionRef;

// Refers to what it was made from, which must outlive it: for parameters only.
template <typename R, typename... Args>
class FunctionRef<R(Args...)> {
 public:
  template <typename F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>)
      FunctionRef(F&& function)  // NOLINT: implicit on purpose.
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(function)))),
        call_([](void* object, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(std::forward<Args>(args)...);
        }) {}

  R operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  R (*call_)(void*, Args...);
};

}  // namespace tandem::c_api

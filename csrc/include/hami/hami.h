// Backends in C++ for hami, compiled outside of it with any compiler and standard library: derive
// from `hami::Backend`, name the class with HAMI_REGISTER_BACKEND, build a shared library, and load
// it with `hami.load("libmine.so")`. Everything here is compiled into the plugin. Only the C
// structs of abi.h cross the border, and no exception does: what a backend throws becomes the error
// of its items.
//
// `init` runs once on the thread that makes the pipeline. `forward` runs on the thread of the
// instance, without Python's lock, and on one thread at a time unless the class says
// `is_reentrant`.
#pragma once

#include <hami/abi.h>
#include <hami/backend.h>
#include <hami/declaration.h>

// Names a backend: HAMI_REGISTER_BACKEND(Class), or with what it declares, as designated
// initialisers of hami::Declaration in their order: HAMI_REGISTER_BACKEND(Class, .doc = "...",
// .params = {{...}}).
#define HAMI_REGISTER_BACKEND(Class, ...)                                   \
  static const ::hami::detail::Registration<Class> registration_of_##Class( \
      #Class, ::hami::Declaration{__VA_ARGS__})

extern "C" {
// In each object of a plugin, once in the library.
__attribute__((visibility("default"), used)) inline const hami_plugin* hami_plugin_describe(void) {
  return ::hami::detail::plugin_table();
}
}

#include "bind/build_facts.h"

#include <string>

namespace py = pybind11;

// CMake gives them to this file alone, so that a new version compiles one file anew.
#ifndef HAMI_VERSION
#error "HAMI_VERSION is not defined: build with CMake"
#endif

namespace hami::bind {
namespace {

std::string compiler() {
#if defined(__clang__)
  return "clang " __clang_version__;
#else
  return "g++ " __VERSION__;
#endif
}

std::string standard_library() {
#if defined(_LIBCPP_VERSION)
  return "libc++";
#else
  return "libstdc++";
#endif
}

// Name to text; what does not apply is left out.
py::dict build_facts() {
  py::dict facts;
  facts["version"] = HAMI_VERSION;
  facts["compiler"] = compiler();
  facts["standard library"] = standard_library();
  facts["build type"] = HAMI_BUILD_TYPE;
  if (HAMI_WHEEL_LEVEL[0] != '\0') facts["wheel level"] = HAMI_WHEEL_LEVEL;
  if (HAMI_SANITIZER[0] != '\0') facts["sanitizer"] = HAMI_SANITIZER;
  return facts;
}

}  // namespace

void define_build_facts(py::module_& module) {
  module.def("build_facts", &build_facts, "How this core was built: names to texts.");
}

}  // namespace hami::bind

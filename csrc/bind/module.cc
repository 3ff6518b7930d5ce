// The module `hami._core`: what the Python package sees of the compiled core.
#include <pybind11/pybind11.h>

#include "bind/pipeline_object.h"
#include "bind/plan_reader.h"
#include "bind/python_backend.h"
#include "bind/tensor_object.h"
#include "core/registry.h"

namespace hami::bind {
namespace {

PYBIND11_MODULE(_core, module) {
  module.doc() = "The compiled core of hami.";
  set_host_factory(&create_python_backend);
  define_tensor(module);
  define_pipeline(module);
  module.def("declarations", &declarations, "The classes of the core, as plain data.");
}

}  // namespace
}  // namespace hami::bind

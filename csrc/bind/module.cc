// The module `hami._core`: what the Python package sees of the compiled core.
#include <pybind11/pybind11.h>

#include "backends/onnxruntime/library.h"
#include "bind/gil.h"
#include "bind/owned.h"
#include "bind/pipeline_object.h"
#include "bind/plan_reader.h"
#include "bind/python_backend.h"
#include "bind/tensor_object.h"
#include "core/registry.h"

namespace hami::bind {
namespace {

// Where a Python package has its shared library: only Python knows. Throws what `locate` raises.
std::string locate_onnxruntime() {
  const GilAcquire gil;
  const Owned family = checked(PyImport_ImportModule("hami.backends.onnxruntime"));
  const Owned path = checked(PyObject_CallMethod(family.get(), "locate", nullptr));
  const char* characters = PyUnicode_AsUTF8(path.get());
  if (characters == nullptr) throw_python_error();
  return characters;
}

PYBIND11_MODULE(_core, module) {
  module.doc() = "The compiled core of hami.";
  set_host_factory(&create_python_backend);
  onnxruntime::set_library_locator(&locate_onnxruntime);
  define_tensor(module);
  define_pipeline(module);
  module.def("declarations", &declarations, "The classes of the core, as plain data.");
}

}  // namespace
}  // namespace hami::bind

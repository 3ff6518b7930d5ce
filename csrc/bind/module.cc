// The module `hami._core`: what the Python package sees of the compiled core.
#include <pybind11/pybind11.h>

#include "bind/build_facts.h"
#include "bind/device_arrays_in_python.h"
#include "bind/express_connection.h"
#include "bind/gil.h"
#include "bind/item_dict.h"
#include "bind/kernels_objects.h"
#include "bind/kv_storage_object.h"
#include "bind/llm_fake_model_object.h"
#include "bind/llm_plan_object.h"
#include "bind/llm_scheduler_object.h"
#include "bind/llm_text_object.h"
#include "bind/load_objects.h"
#include "bind/owned.h"
#include "bind/pipeline_object.h"
#include "bind/plan_reader.h"
#include "bind/plugin_loader.h"
#include "bind/python_backend.h"
#include "bind/python_deferred.h"
#include "bind/python_order.h"
#include "bind/tensor_object.h"
#include "core/library_locator.h"
#include "core/registry.h"

namespace hami::bind {
namespace {

// Asks the Python half of an engine's family. Throws what its `locate` raises.
std::string locate_in_python(const std::string& family) {
  const GilAcquire gil;
  const Owned module = checked(PyImport_ImportModule(("hami.backends." + family).c_str()));
  const Owned path = checked(PyObject_CallMethod(module.get(), "locate", nullptr));
  const char* characters = PyUnicode_AsUTF8(path.get());
  if (characters == nullptr) throw_python_error();
  return characters;
}

// Python looks for PyInit__core, below.
PYBIND11_MODULE(_parts, module, pybind11::mod_gil_not_used()) {
  module.doc() = "The compiled core of hami.";
  set_host_factory(&create_python_backend);
  set_host_order_factory(&create_python_order);
  set_base_eraser(&erase_from_base);
  set_library_locator(&locate_in_python);
  set_device_arrays(device_arrays_in_python());
  define_build_facts(module);
  define_tensor(module);
  define_pipeline(module);
  define_express(module);
  define_kv_storage(module);
  define_reply(module);
  define_kernel_results(module);
  define_cpu_decoder(module);
  define_cpu_parts(module);
  define_llm_plan(module);
  define_llm_scheduler(module);
  define_llm_fake_model(module);
  define_llm_text(module);
  define_load(module);
  define_plugins(module);
  module.def("declarations", &declarations, "The classes of the core, as plain data.");
}

}  // namespace
}  // namespace hami::bind

// In another interpreter of the process pybind11 would wait for ever for a lock that its own thread
// holds, before any code of ours is asked.
extern "C" PYBIND11_EXPORT PyObject* PyInit__core() {
  if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
    PyErr_SetString(
        PyExc_ImportError,
        "hami works in the main interpreter alone, not in a sub-interpreter: use threads, "
        "which hami serves at once, or processes");
    return nullptr;
  }
  return hami::bind::PyInit__parts();
}

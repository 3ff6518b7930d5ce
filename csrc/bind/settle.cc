#include "bind/settle.h"

#include <dlfcn.h>

#include <algorithm>

#include "bind/tensor_object.h"

namespace hami::bind {
namespace {

constexpr int32_t kCuda = 2;  // DLPack's code of the device type

thread_local SettledOnce* scope = nullptr;

// What the driver of CUDA offers, where the process has loaded it: arrays on its devices come from
// a library that has. So nothing here depends on it.
struct Driver {
  int (*device_of_context)(int* device) = nullptr;
  int (*query)(void* stream) = nullptr;
};

Driver find_driver() {
  Driver driver;
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return driver;
  driver.device_of_context = reinterpret_cast<int (*)(int*)>(dlsym(library, "cuCtxGetDevice"));
  driver.query = reinterpret_cast<int (*)(void*)>(dlsym(library, "cuStreamQuery"));
  return driver;
}

// Whether the current stream of that device is known to have nothing to do. A thread that never
// used the device, or uses another one now, has no context in which the driver could be asked.
bool is_idle(Device device, const dlpack::ExchangeTable* table) {
  if (table == nullptr || table->current_stream == nullptr || device.type != kCuda) return false;
  static const Driver driver = find_driver();
  if (driver.device_of_context == nullptr || driver.query == nullptr) return false;
  int current = -1;
  void* stream = nullptr;
  return driver.device_of_context(&current) == 0 && current == device.id &&
         table->current_stream(device.type, device.id, &stream) == 0 && driver.query(stream) == 0;
}

}  // namespace

SettledOnce::SettledOnce() : outer_(scope) { scope = this; }
SettledOnce::~SettledOnce() { scope = outer_; }

void settle(PyObject* object, Device device, const dlpack::ExchangeTable* table) {
  const std::pair place(Py_TYPE(object), device);
  if (scope != nullptr && std::ranges::find(scope->done_, place) != scope->done_.end()) return;
  if (!is_idle(device, table)) {
    Py_XDECREF(call_tensors("settle", object));
    PyErr_Clear();  // also of the table's function
  }
  if (scope != nullptr) scope->done_.push_back(place);
}

}  // namespace hami::bind

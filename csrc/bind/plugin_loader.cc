#include "bind/plugin_loader.h"

#include <hami/abi.h>
#include <pybind11/stl.h>

#include <set>
#include <string>

#include "bind/gil.h"
#include "bind/guarded.h"
#include "plugin/loader.h"

namespace py = pybind11;

namespace hami::bind {
namespace {

// The GIL is given away: the library's initialisers are anybody's code, and others may be loading.
py::dict load_plugin(const std::string& path, const std::set<std::string>& taken) {
  const plugin::Loaded loaded = guarded([&] {
    const GilRelease release;
    return plugin::load(path, taken);
  });
  py::list classes;
  for (const std::string& name : loaded.classes) classes.append(name);
  py::dict row;
  row["name"] = loaded.name;
  row["classes"] = classes;
  row["is_new"] = loaded.is_new;
  return row;
}

}  // namespace

void define_plugins(py::module_& module) {
  module.def("load_plugin", &load_plugin, py::arg("path"), py::arg("taken"),
             "Loads a shared library, and registers its backends.");
  module.attr("ABI_VERSION") = py::make_tuple(HAMI_ABI_MAJOR, HAMI_ABI_MINOR);
}

}  // namespace hami::bind

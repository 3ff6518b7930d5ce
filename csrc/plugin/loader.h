// Loads shared libraries whose backends were compiled elsewhere. Loaded once, a plugin stays until
// the process ends; what is refused is unloaded again. Any thread may load, one at a time does.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace hami::plugin {

struct Loaded {
  std::string name;
  std::vector<std::string> classes;
  bool is_new = false;  // false: this very file was loaded before
};

// Loads the file at the absolute `path` and registers its backends: all of them, or none with a
// config error. `taken` are names that backends of the host language have. REQUIRES: no lock is
// held that the library's own code might wait for.
Loaded load(const std::string& path, const std::set<std::string>& taken);

}  // namespace hami::plugin

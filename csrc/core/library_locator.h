// Where the shared library of an engine is installed. Engines come as Python packages, and only the
// host language knows where those are; it tells the core through one hook.
#pragma once

#include <functional>
#include <string>

namespace hami {

// Finds the library of a family (`onnxruntime`, ...). Throws when it is not installed.
using LibraryLocator = std::function<std::string(const std::string& family)>;

// Set once by the binding, before the first pipeline.
void set_library_locator(LibraryLocator locator);

// The path of the family's library. Throws a build error where it is not to be found. REQUIRES: no
// lock is held that the host language might wait for.
std::string locate_library(const std::string& family);

}  // namespace hami

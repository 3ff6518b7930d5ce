// A look at a file before the loader of the system maps it: of a library that is cut short it would
// touch pages that are not there, and the process would end.
#pragma once

#include <string>

namespace hami::plugin {

// Why the file is no whole shared library for this machine, in words, or an empty text.
std::string problem_of_library(const std::string& path);

}  // namespace hami::plugin

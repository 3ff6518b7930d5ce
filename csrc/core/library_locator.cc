#include "core/library_locator.h"

#include <mutex>
#include <utility>

#include "core/error.h"

namespace hami {
namespace {

std::mutex mutex;

LibraryLocator& the_locator() {
  static auto* const locator = new LibraryLocator();
  return *locator;
}

}  // namespace

void set_library_locator(LibraryLocator locator) {
  std::lock_guard lock(mutex);
  the_locator() = std::move(locator);
}

std::string locate_library(const std::string& family) {
  LibraryLocator locate;
  {
    std::lock_guard lock(mutex);
    locate = the_locator();
  }
  if (!locate) {
    throw Error(ErrorKind::kBuild, "library-missing",
                "nobody knows where the library of " + backticked(family) + " is",
                "import `hami`, which looks for its Python package");
  }
  return locate(family);
}

}  // namespace hami

// Where an error happened, and `Failure`: an error as a value, for results that keep their failed
// elements.
#pragma once

#include <exception>
#include <optional>
#include <string>

#include "core/value.h"

namespace hami {

// Where in the pipeline an item failed, for the note on its exception.
struct FailureSite {
  std::string node;
  std::string backend;
  int instance = 0;
};

class Failure final : public Any {
 public:
  Failure(std::exception_ptr error, std::optional<FailureSite> site)
      : error(std::move(error)), site(std::move(site)) {}
  std::string type_name() const override { return "exception"; }

  const std::exception_ptr error;
  const std::optional<FailureSite> site;
};

}  // namespace hami

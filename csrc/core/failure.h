// Where an error happened, and `Failure`: an error as a value, for results that keep their failed
// elements.
#pragma once

#include <exception>
#include <memory>
#include <string>

#include "core/value.h"

namespace hami {

// Where in the pipeline an item failed, for the note on its exception.
struct FailureSite {
  // One for all that failed there; null where the place is not known.
  using Shared = std::shared_ptr<const FailureSite>;

  std::string node;
  std::string backend;
  int instance = 0;
};

class Failure final : public Any {
 public:
  Failure(std::exception_ptr error, FailureSite::Shared site)
      : error(std::move(error)), site(std::move(site)) {}
  std::string type_name() const override { return "exception"; }

  const std::exception_ptr error;
  const FailureSite::Shared site;
};

}  // namespace hami

// `Failure`: an error as a value, for results that keep their failed elements.
#pragma once

#include <exception>

#include "core/value.h"

namespace hami {

class Failure final : public Any {
 public:
  explicit Failure(std::exception_ptr error) : error(std::move(error)) {}
  std::string type_name() const override { return "exception"; }

  const std::exception_ptr error;
};

}  // namespace hami

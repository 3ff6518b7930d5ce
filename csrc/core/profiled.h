// `Profiled`: a backend that measures its runs. It is among the services of its pipeline, so
// whoever reports on a pipeline finds it there.
#pragma once

#include <cstdint>
#include <string>

#include "core/latency_histogram.h"

namespace hami {

struct RunFigures {
  std::string node;
  std::string backend;  // the class that was measured
  int instance = 0;
  int64_t num_items = 0;
  int64_t num_rows = 0;
  int64_t num_raised = 0;  // runs that ended with an exception
  Percentiles run;
};

class Profiled {
 public:
  virtual ~Profiled() = default;
  // Any thread, while runs go on.
  virtual RunFigures figures() const = 0;
};

}  // namespace hami

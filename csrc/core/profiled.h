// `Profiled`: a backend that counts its runs. It is among the services of its pipeline, so whoever
// reports on a pipeline finds it there.
#pragma once

#include <cstdint>
#include <string>

namespace hami {

struct RunFigures {
  std::string node;
  std::string backend;  // the class that was measured
  int instance = 0;
  int64_t num_runs = 0;
  int64_t num_items = 0;
  int64_t num_rows = 0;
  int64_t num_raised = 0;  // runs that ended with an exception
  double total_ms = 0;
  double longest_ms = 0;
};

class Profiled {
 public:
  virtual ~Profiled() = default;
  // Any thread, while runs go on.
  virtual RunFigures figures() const = 0;
};

}  // namespace hami

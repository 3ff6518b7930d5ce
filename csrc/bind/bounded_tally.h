// `BoundedTally`: how many values lay between given bounds, and their sum: a histogram as
// Prometheus counts it. Any thread.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

namespace hami::bind {

class BoundedTally {
 public:
  // Throws the Python error ValueError unless the bounds grow.
  explicit BoundedTally(std::vector<double> bounds);

  void add(double value) noexcept;
  // How many values were at most as large as each bound and above the one before it, the last
  // count being of those above all bounds; and the sum of the values.
  std::pair<std::vector<uint64_t>, double> read() const;

 private:
  const std::vector<double> bounds_;
  mutable std::mutex mutex_;
  std::vector<uint64_t> counts_;
  double sum_ = 0;
};

void define_bounded_tally(pybind11::module_& module);

}  // namespace hami::bind

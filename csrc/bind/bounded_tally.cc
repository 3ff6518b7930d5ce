#include "bind/bounded_tally.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <functional>
#include <memory>

#include "bind/method.h"

namespace py = pybind11;

namespace hami::bind {

BoundedTally::BoundedTally(std::vector<double> bounds)
    : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {
  if (std::ranges::adjacent_find(bounds_, std::not_fn(std::less<>())) != bounds_.end()) {
    throw py::value_error("each bound must be above the one before it");
  }
}

void BoundedTally::add(double value) noexcept {
  const auto place = std::ranges::lower_bound(bounds_, value) - bounds_.begin();
  const std::lock_guard lock(mutex_);
  ++counts_[static_cast<size_t>(place)];
  sum_ += value;
}

std::pair<std::vector<uint64_t>, double> BoundedTally::read() const {
  const std::lock_guard lock(mutex_);
  return {counts_, sum_};
}

void define_bounded_tally(py::module_& module) {
  py::class_<BoundedTally, std::shared_ptr<BoundedTally>>(
      module, "BoundedTally", "How many values lay between given bounds, and their sum.")
      .def(py::init<std::vector<double>>(), py::arg("bounds"))
      .def(
          "add", [](py::handle self, double value) { made<BoundedTally>(self).add(value); },
          py::arg("value"))
      .def("read", method(&BoundedTally::read),
           "How many values lay between the bounds, each of which belongs to those below it, the "
           "last count being of those above all; and the sum of the values.");
}

}  // namespace hami::bind

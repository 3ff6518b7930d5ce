// `HostBatch`: a batch as user code sees it, a list of dicts, and what user code made of it. Lives
// for one run, on its thread, with the GIL.
#pragma once

#include <Python.h>

#include <string>
#include <vector>

#include "bind/owned.h"
#include "core/error.h"
#include "core/item.h"

namespace hami::bind {

class HostBatch {
 public:
  // `node` is for errors; `container_depth` says how deep results are opened.
  HostBatch(Batch batch, const std::string& node, int container_depth);

  PyObject* list() const noexcept { return list_.get(); }
  PyObject* dict(size_t index) const noexcept { return dicts_[index].get(); }

  // What `forward` returned goes into the dicts. Throws when it is not one result for each.
  void take_results(PyObject* returned);
  // What differs in the dicts from before goes into the items, and so do their errors.
  void take_changes();

 private:
  void take_changes_of(size_t index) const;
  void take_removals_of(size_t index) const;
  Error wrong_count(const std::string& got) const;
  Error wrong_key(PyObject* name) const;
  std::exception_ptr error_of_item(PyObject* object) const;

  const Batch batch_;
  const std::string& node_;
  const int container_depth_;
  // Copies from before user code ran: what differs was set by it.
  std::vector<Owned> before_;
  // Kept apart from the list, which user code may change.
  std::vector<Owned> dicts_;
  Owned list_;
};

}  // namespace hami::bind

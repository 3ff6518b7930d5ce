// `PythonInstance`: the object of the user behind a backend, from its making to its end. It counts
// the runs inside user code, so that the object is not ended under their feet.
#pragma once

#include <Python.h>

#include <mutex>
#include <string>

#include "bind/gil.h"
#include "bind/owned.h"
#include "core/backend.h"
#include "plan/build.h"

namespace hami::bind {

// hami.instances, which makes and ends the objects. REQUIRES: the GIL.
Owned import_instances();

class PythonInstance {
 public:
  // Makes the object that `build.expr().host` describes. Throws what the user's code raises.
  // REQUIRES: the GIL.
  explicit PythonInstance(Build& build);

  PyObject* get() const noexcept { return object_->get(); }
  const std::string& node_name() const noexcept { return node_name_; }
  // Null where the object has no such attribute; what else the attribute raises is thrown.
  // REQUIRES: the GIL, as for the next two.
  Owned trait(const char* name) const;
  bool read_flag(const char* name) const;
  [[noreturn]] void refuse_trait(const char* name, const char* expected) const;
  // The event loop on which the object's coroutines run, told when the object ends.
  void set_loop(Ref<PyHandle> loop) { loop_ = std::move(loop); }

  // What its `problem()` says. Any thread.
  std::string problem() const;
  // The numbers that its `stats()` tells. Any thread.
  Figures figures() const;

  // A run inside user code, for a scope. Throws when the pipeline is closed.
  class Stay {
   public:
    explicit Stay(PythonInstance& instance) : instance_(instance) { instance.enter(); }
    ~Stay() { instance_.leave(); }
    Stay(const Stay&) = delete;
    Stay& operator=(const Stay&) = delete;

   private:
    PythonInstance& instance_;
  };

  // The pipeline is closed: ends the object, now or after the run that is inside.
  void tear_down() noexcept;

 private:
  void enter();
  void leave() noexcept;
  void end() noexcept;

  const std::string node_name_;
  const Ref<PyHandle> object_;
  // Whether the object was made for this pipeline.
  const bool is_owner_;
  // `close` may be called during a run, in order to end it.
  const bool closes_while_running_;
  Ref<PyHandle> loop_;

  std::mutex mutex_;
  int num_inside_ = 0;
  bool is_torn_down_ = false;
};

}  // namespace hami::bind

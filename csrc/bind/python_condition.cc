#include "bind/python_condition.h"

#include "bind/gil.h"
#include "bind/item_dict.h"
#include "bind/owned.h"

namespace hami::bind {
namespace {

class PythonCondition final : public Condition {
 public:
  explicit PythonCondition(Build& build)
      : Condition(build.children()), predicate_(static_cast<PyHandle*>(build.expr().host.get())) {}

  // The predicate gets a dict of its own: what it changes there is gone afterwards.
  bool holds(const Item& item) const override {
    const GilAcquire gil;
    const Owned dict = to_dict(item.dict, base_of(item));
    PyObject* const args[] = {dict.get()};
    const Owned answer = checked(call_python(predicate_->get(), args, 1));
    const int is_true = survive_finalization([&] { return PyObject_IsTrue(answer.get()); });
    check(is_true);
    return is_true == 1;
  }

  // Takes the GIL once for the batch.
  Parts divide(Batch batch) const override {
    const GilAcquire gil;
    drain_released();
    return Condition::divide(batch);
  }

 protected:
  Traits traits_of_question() const override { return {.reads_everything = true}; }

 private:
  const Ref<PyHandle> predicate_;
};

}  // namespace

std::shared_ptr<Condition> create_python_condition(Build& build) {
  return std::make_shared<PythonCondition>(build);
}

}  // namespace hami::bind

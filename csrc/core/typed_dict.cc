#include "core/typed_dict.h"

#include "core/error.h"

namespace hami {

void TypedDict::refuse(const Key& key, const char* wanted) const {
  const Value* value = dict_.find(key);
  if (value == nullptr) refuse_missing(key, wanted);
  refuse_type(key, wanted, *value);
}

void TypedDict::refuse_missing(const Key& key, const char* wanted) const {
  throw Error(ErrorKind::kRequest, "request-missing-key",
              backticked(reader_) + " finds no key " + backticked(key.text()) + " in the request",
              std::string("put ") + wanted + " there");
}

void TypedDict::refuse_type(const Key& key, const char* wanted, const Value& value) const {
  throw Error(ErrorKind::kRequest, "request-type",
              backticked(reader_) + " needs " + wanted + " under " + backticked(key.text()) +
                  ", got " + backticked(value.type_name()),
              std::string("put ") + wanted + " there");
}

}  // namespace hami

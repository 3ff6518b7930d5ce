#include "builtin/written_key.h"

#include "core/error.h"

namespace hami {

Key written_key(Build& build) {
  const std::string name = build.params().get_str("key");
  const Key key = Key::intern(name);
  if (key == keys::result || key == keys::error) {
    throw Error(ErrorKind::kBuild, "build-param",
                backticked(name) + " cannot be the key of " + backticked(build.expr().name),
                "choose another key");
  }
  return key;
}

}  // namespace hami

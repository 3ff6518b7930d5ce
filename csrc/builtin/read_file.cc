// `ReadFile`: the result is the content of the file that `data` names. With `root`, a path must end
// up below that folder after all links are followed. It never opens anything but a regular file,
// so that no pipe can block it and no device is touched.
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>

#include "core/error.h"
#include "plan/build.h"

namespace hami {
namespace {

namespace fs = std::filesystem;

class File {
 public:
  File(const std::string& path, int flags) : descriptor_(open(path.c_str(), flags | O_CLOEXEC)) {}
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  bool is_open() const noexcept { return descriptor_ >= 0; }
  int get() const noexcept { return descriptor_; }
  // Another name of the same open file, whatever happens to its path meanwhile.
  std::string link() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error(ErrorKind::kRequest, "file-read", hami::backticked(path) + " cannot be read: " + why,
              "give the path of a file that exists and may be read");
}

[[noreturn]] void refuse_outside(const std::string& path) {
  throw Error(ErrorKind::kRequest, "file-outside-root",
              hami::backticked(path) + " is not below the `root` of `ReadFile`",
              "name a file below that folder");
}

std::string reason(int error) { return std::generic_category().message(error); }

bool is_below(const fs::path& path, const fs::path& folder) {
  const auto [end, rest] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return end == folder.end() && rest != path.end();
}

std::string path_of(const Item& item) {
  const Value& data = item.data();
  if (!data.is(Value::Kind::kStr)) {
    throw Error(ErrorKind::kRequest, "request-type",
                "`ReadFile` takes a path as UTF-8 text, got " + hami::backticked(data.type_name()),
                "put the path of a file under `data`");
  }
  std::string path(data.as_text());
  if (path.find('\0') != std::string::npos) {
    refuse(path.substr(0, path.find('\0')), "the path holds a NUL character");
  }
  if (path.empty()) refuse(path, "the path is empty");
  return path;
}

class ReadFile final : public InlineBackend {
 public:
  explicit ReadFile(Build& build)
      : max_bytes_(static_cast<size_t>(build.params().get_int("max_bytes"))) {
    const auto root = build.params().find_str("root");
    if (!root) return;
    std::error_code error;
    given_root_ = fs::absolute(*root, error).lexically_normal();
    root_ = fs::canonical(*root, error);
    if (error || !fs::is_directory(*root_)) {
      throw Error(ErrorKind::kBuild, "file-root",
                  "`root` = " + hami::backticked(*root) + " is not a folder that can be opened",
                  "create it, or correct the path");
    }
  }

  // It may wait for a disk.
  Traits traits() const override { return {.is_reentrant = true}; }

  void forward(Batch batch) override {
    for_each_item(batch, [this](Item& item) {
      item.set_result(Value::bytes(make_ref<Bytes>(read(path_of(item)))));
    });
  }

 private:
  std::string read(const std::string& path) const {
    // Opened as a mere place first: that has no effect on what is there.
    const File place(root_ ? below_root(path) : path, O_PATH);
    if (!place.is_open()) refuse(path, reason(errno));
    if (root_) check_is_below_root(place, path);
    struct stat facts{};
    if (fstat(place.get(), &facts) != 0) refuse(path, reason(errno));
    if (S_ISDIR(facts.st_mode)) refuse(path, "it is a folder");
    if (!S_ISREG(facts.st_mode)) refuse(path, "it is no regular file");
    check_size(static_cast<size_t>(facts.st_size), path);
    const File file(place.link(), O_RDONLY);
    if (!file.is_open()) refuse(path, reason(errno));
    return content(file, static_cast<size_t>(facts.st_size), path);
  }

  // By the letters of the path alone, so that an error says nothing about what is outside.
  std::string below_root(const std::string& path) const {
    const fs::path whole = *root_ / path;
    const fs::path normal = whole.lexically_normal();
    if (!is_below(normal, *root_) && !is_below(normal, given_root_)) refuse_outside(path);
    return whole.string();
  }

  void check_is_below_root(const File& place, const std::string& path) const {
    std::string target(PATH_MAX, '\0');
    const ssize_t size = readlink(place.link().c_str(), target.data(), target.size());
    if (size < 0) refuse(path, reason(errno));
    target.resize(static_cast<size_t>(size));
    if (!is_below(target, *root_)) refuse_outside(path);
  }

  void check_size(size_t size, const std::string& path) const {
    if (size <= max_bytes_) return;
    throw Error(ErrorKind::kRequest, "file-too-large",
                hami::backticked(path) +
                    " has more than `max_bytes` = " + std::to_string(max_bytes_) + " bytes",
                "raise `max_bytes` of `ReadFile`");
  }

  // The size is a hint only: a file may grow, and those of the kernel say 0.
  std::string content(const File& file, size_t size, const std::string& path) const {
    constexpr size_t kStep = 65536;
    std::string bytes;
    bytes.resize(size + 1);
    size_t end = 0;
    while (true) {
      const ssize_t num_read = ::read(file.get(), bytes.data() + end, bytes.size() - end);
      if (num_read < 0 && errno == EINTR) continue;
      if (num_read < 0) refuse(path, reason(errno));
      if (num_read == 0) break;
      end += static_cast<size_t>(num_read);
      check_size(end, path);
      if (end == bytes.size()) bytes.resize(end + std::max(kStep, end / 2));
    }
    bytes.resize(end);
    return bytes;
  }

  const size_t max_bytes_;
  std::optional<fs::path> root_;  // without links
  fs::path given_root_;           // as it was written
};

HAMI_REGISTER(ReadFile, .family = "flow",
              .doc = "The content, as bytes, of the file that the data names.",
              .params = {{.name = "root",
                          .type = "path",
                          .doc = "the folder that paths start from and must stay below"},
                         {.name = "max_bytes",
                          .type = "int",
                          .doc = "largest file that is read",
                          .default_value = Value(int64_t{256} << 20),
                          .unit = "bytes",
                          .min = 0}});

}  // namespace
}  // namespace hami

#include "plugin/library_file.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <system_error>
#include <vector>

namespace hami::plugin {
namespace {

static_assert(sizeof(void*) == 8, "libraries are read as ELF of 64 bits");

class File {
 public:
  explicit File(const std::string& path) : descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  bool is_open() const noexcept { return descriptor_ >= 0; }
  uint64_t size() const noexcept {
    struct stat status{};
    return fstat(descriptor_, &status) == 0 ? static_cast<uint64_t>(status.st_size) : 0;
  }
  bool read_at(uint64_t offset, void* out, size_t size) const noexcept {
    return pread(descriptor_, out, size, static_cast<off_t>(offset)) == static_cast<ssize_t>(size);
  }

 private:
  int descriptor_;
};

// The machine that this code was compiled for.
bool read_own_machine(uint16_t& machine) {
  Elf64_Ehdr own{};
  const File file("/proc/self/exe");
  if (!file.is_open() || !file.read_at(0, &own, sizeof(own))) return false;
  machine = own.e_machine;
  return true;
}

}  // namespace

std::string problem_of_library(const std::string& path) {
  const File file(path);
  if (!file.is_open()) return std::generic_category().message(errno);
  Elf64_Ehdr header{};
  if (!file.read_at(0, &header, sizeof(header)) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_type != ET_DYN) {
    return "it is no shared library";
  }
  constexpr unsigned char kOrder =
      std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;
  uint16_t machine = 0;
  const bool is_foreign = read_own_machine(machine) && header.e_machine != machine;
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != kOrder || is_foreign) {
    return "it is a library for another kind of processor";
  }
  const uint64_t size = file.size();
  std::vector<Elf64_Phdr> segments(header.e_phnum);
  if (header.e_phentsize != sizeof(Elf64_Phdr) || segments.empty() ||
      !file.read_at(header.e_phoff, segments.data(), segments.size() * sizeof(Elf64_Phdr))) {
    return "it is cut short, or damaged";
  }
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_filesz > size || segment.p_offset > size - segment.p_filesz) {
      return "it is cut short";
    }
  }
  return {};
}

}  // namespace hami::plugin

#include "onnx_fixture.h"

#include <cstdio>
#include <filesystem>
#include <stdexcept>

#include "core/library_locator.h"

namespace hami::onnxruntime::testing {
namespace {

// A folder of models that is removed at the end of the run.
class Models {
 public:
  Models() {
    std::string name = (std::filesystem::temp_directory_path() / "hami_models_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    folder_ = name;
    const char* python = std::getenv("HAMI_TEST_PYTHON");
    const std::string command =
        std::string(python == nullptr ? "python3" : python) + " " HAMI_ONNX_MODELS " " + name;
    FILE* output = popen(command.c_str(), "r");
    char line[4096];
    while (std::fgets(line, sizeof line, output) != nullptr) library_ = line;
    if (pclose(output) != 0) {
      throw std::runtime_error("HAMI_TEST_PYTHON must name a Python with onnx and onnxruntime");
    }
    while (library_.ends_with('\n')) library_.pop_back();
    set_library_locator([library = library_](const std::string&) { return library; });
  }
  ~Models() { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ / (name + ".onnx"); }

 private:
  std::filesystem::path folder_;
  std::string library_;
};

}  // namespace

std::string model_path(const std::string& name) {
  static const Models models;
  return models.path(name);
}

}  // namespace hami::onnxruntime::testing

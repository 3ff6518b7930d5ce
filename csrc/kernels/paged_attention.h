// `AttentionTasks`: how the attention of one step is cut into pieces of about equal work, the same
// for all layers. Long contexts of few rows are cut along the keys and joined afterwards, so that
// all threads work even at one row; chunks of a prompt are cut into blocks of queries.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/memory.h"
#include "kernels/step_view.h"
#include "kernels/thread_team.h"

namespace hami::kernels {

struct AttentionShape {
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  Format kv_format = Format::kFloat32;
  float scale = 0;
};

// Queries and results of a step, and the pages of one layer.
struct AttentionData {
  const float* q = nullptr;
  size_t q_stride = 0;  // floats from token to token
  float* out = nullptr;
  size_t out_stride = 0;
  const std::byte* keys = nullptr;  // page 0, head 0
  const std::byte* values = nullptr;
  size_t page_stride = 0;  // elements
  size_t head_stride = 0;
  int page_size = 0;
};

class AttentionTasks {
 public:
  AttentionTasks() = default;
  AttentionTasks(const Kernels& kernels, const AttentionShape& shape, int num_threads);

  // Cuts the work of a step. Throws only for want of memory.
  void plan(const StepView& step);
  // All of it, by all members of a team.
  void run(Member& member, const AttentionData& data) noexcept;

 private:
  struct Task {
    int token = 0;
    int num_tokens = 0;
    int first_position = 0;
    const int32_t* pages = nullptr;
    int begin = 0;
    int end = 0;
    int part = -1;  // its place among the partial results, unless it is whole
  };
  struct Join {
    int token = 0;
    int first_part = 0;
    int num_parts = 0;
  };

  void plan_decode(int token, int context, const int32_t* pages, int most_keys);
  void attend(const Task& task, int head, const AttentionData& data, float* scratch) noexcept;
  void join(const Join& join, int head, const AttentionData& data) noexcept;
  size_t part_floats() const noexcept;

  const Kernels* kernels_ = nullptr;
  AttentionShape shape_;
  int num_threads_ = 1;
  int group_ = 1;
  std::vector<Task> tasks_;
  std::vector<Join> joins_;
  std::vector<float> parts_;
  std::vector<AlignedMemory> scratch_;  // of each member
};

}  // namespace hami::kernels

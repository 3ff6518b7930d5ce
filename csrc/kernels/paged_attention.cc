#include "kernels/paged_attention.h"

#include <algorithm>
#include <cmath>

namespace hami::kernels {
namespace {

constexpr int kFewestKeys = 256;    // below, joining costs more than another thread brings
constexpr int kTasksPerThread = 4;  // so that none waits long for the last
constexpr int kWorthBlocking = 8;   // queries

}  // namespace

AttentionTasks::AttentionTasks(const Kernels& kernels, const AttentionShape& shape, int num_threads)
    : kernels_(&kernels),
      shape_(shape),
      num_threads_(num_threads),
      group_(shape.num_heads / shape.num_kv_heads) {
  for (int i = 0; i < num_threads; ++i) {
    scratch_.emplace_back(sizeof(float) * attention_scratch(shape.head_dim));
  }
}

// A part holds the results of one group of heads, then a maximum and a sum for each.
size_t AttentionTasks::part_floats() const noexcept {
  return static_cast<size_t>(group_) * (static_cast<size_t>(shape_.head_dim) + 2);
}

void AttentionTasks::plan(const StepView& step) {
  tasks_.clear();
  joins_.clear();
  int64_t num_keys = 0;
  for (const int32_t context : step.context_lens) num_keys += context;
  const int64_t fair = num_keys * shape_.num_kv_heads / (num_threads_ * kTasksPerThread) + 1;
  const int most_keys = num_threads_ == 1 ? static_cast<int>(num_keys)
                                          : static_cast<int>(std::max<int64_t>(kFewestKeys, fair));
  for (int row = 0; row < step.num_rows(); ++row) {
    const size_t r = static_cast<size_t>(row);
    const int begin = step.query_starts[r];
    const int num_tokens = step.query_starts[r + 1] - begin;
    const int context = step.context_lens[r];
    const int32_t* pages = step.pages(row);
    if (num_tokens * group_ < kWorthBlocking || group_ > kMaxQueries) {
      for (int i = 0; i < num_tokens; ++i) {
        plan_decode(begin + i, context - num_tokens + i + 1, pages, most_keys);
      }
      continue;
    }
    const int block = kMaxQueries / group_;
    for (int i = 0; i < num_tokens; i += block) {
      Task task;
      task.token = begin + i;
      task.num_tokens = std::min(block, num_tokens - i);
      task.first_position = context - num_tokens + i;
      task.pages = pages;
      task.end = task.first_position + task.num_tokens;
      tasks_.push_back(task);
    }
  }
  // The longest first: the short ones at the end even out who is done when.
  std::stable_sort(tasks_.begin(), tasks_.end(), [](const Task& a, const Task& b) {
    return int64_t{a.end - a.begin} * a.num_tokens > int64_t{b.end - b.begin} * b.num_tokens;
  });
  int num_parts = 0;
  for (const Join& join : joins_) num_parts += join.num_parts;
  parts_.resize(static_cast<size_t>(num_parts) * static_cast<size_t>(shape_.num_kv_heads) *
                part_floats());
}

void AttentionTasks::plan_decode(int token, int context, const int32_t* pages, int most_keys) {
  const int num_parts = (context + most_keys - 1) / most_keys;
  const int first_part = joins_.empty() ? 0 : joins_.back().first_part + joins_.back().num_parts;
  if (num_parts > 1) joins_.push_back({token, first_part, num_parts});
  for (int part = 0; part < num_parts; ++part) {
    Task task;
    task.token = token;
    task.num_tokens = 1;
    task.first_position = context - 1;
    task.pages = pages;
    task.begin = static_cast<int>(int64_t{context} * part / num_parts);
    task.end = static_cast<int>(int64_t{context} * (part + 1) / num_parts);
    task.part = num_parts > 1 ? first_part + part : -1;
    tasks_.push_back(task);
  }
}

void AttentionTasks::run(Member& member, const AttentionData& data) noexcept {
  float* scratch = scratch_[static_cast<size_t>(member.index())].as<float>();
  const int num_heads = shape_.num_kv_heads;
  member.share(static_cast<int64_t>(tasks_.size()) * num_heads, [&](int64_t i) {
    attend(tasks_[static_cast<size_t>(i / num_heads)], static_cast<int>(i % num_heads), data,
           scratch);
  });
  if (joins_.empty()) return;
  member.share(static_cast<int64_t>(joins_.size()) * num_heads, [&](int64_t i) {
    join(joins_[static_cast<size_t>(i / num_heads)], static_cast<int>(i % num_heads), data);
  });
}

void AttentionTasks::attend(const Task& task, int head, const AttentionData& data,
                            float* scratch) noexcept {
  const size_t head_dim = static_cast<size_t>(shape_.head_dim);
  const size_t first_head = static_cast<size_t>(head) * static_cast<size_t>(group_) * head_dim;
  const size_t token = static_cast<size_t>(task.token);
  const size_t offset = static_cast<size_t>(head) * data.head_stride * bytes_of(shape_.kv_format);
  AttentionArgs args;
  args.q = data.q + token * data.q_stride + first_head;
  args.q_stride = data.q_stride;
  args.num_tokens = task.num_tokens;
  args.group = group_;
  args.head_dim = shape_.head_dim;
  args.keys = data.keys + offset;
  args.values = data.values + offset;
  args.page_stride = data.page_stride;
  args.page_size = data.page_size;
  args.pages = task.pages;
  args.first_position = task.first_position;
  args.begin = task.begin;
  args.end = task.end;
  args.scale = shape_.scale;
  args.scratch = scratch;
  if (task.part < 0) {
    args.out = data.out + token * data.out_stride + first_head;
    args.out_stride = data.out_stride;
  } else {
    args.out =
        parts_.data() + (static_cast<size_t>(task.part) * static_cast<size_t>(shape_.num_kv_heads) +
                         static_cast<size_t>(head)) *
                            part_floats();
    args.sums = args.out + static_cast<size_t>(group_) * head_dim;
  }
  const int format = static_cast<int>(shape_.kv_format);
  const auto& attend = task.num_tokens > 1 ? kernels_->attend_many : kernels_->attend_few;
  attend[format](args);
}

void AttentionTasks::join(const Join& join, int head, const AttentionData& data) noexcept {
  const size_t head_dim = static_cast<size_t>(shape_.head_dim);
  const size_t group = static_cast<size_t>(group_);
  const size_t step = static_cast<size_t>(shape_.num_kv_heads) * part_floats();
  const float* const first = parts_.data() + static_cast<size_t>(join.first_part) * step +
                             static_cast<size_t>(head) * part_floats();
  float* const out = data.out + static_cast<size_t>(join.token) * data.out_stride +
                     static_cast<size_t>(head) * group * head_dim;
  const size_t num_parts = static_cast<size_t>(join.num_parts);
  for (size_t g = 0; g < group; ++g) {
    const float* const sums = first + group * head_dim + 2 * g;
    float highest = sums[0];
    for (size_t p = 1; p < num_parts; ++p) highest = std::max(highest, sums[p * step]);
    float total = 0;
    std::fill_n(out + g * head_dim, head_dim, 0.0F);
    for (size_t p = 0; p < num_parts; ++p) {
      const float weight = std::exp(sums[p * step] - highest);
      total += weight * sums[p * step + 1];
      const float* const from = first + p * step + g * head_dim;
      for (size_t d = 0; d < head_dim; ++d) out[g * head_dim + d] += weight * from[d];
    }
    for (size_t d = 0; d < head_dim; ++d) out[g * head_dim + d] /= total;
  }
}

}  // namespace hami::kernels

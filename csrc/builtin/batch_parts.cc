#include "builtin/batch_parts.h"

#include <algorithm>

namespace hami {

std::vector<Batch> divide_batch(Batch batch, size_t num_parts, const BatchRange& range) {
  const int64_t total = num_rows(batch);
  const int64_t most = static_cast<int64_t>(std::min(num_parts, batch.size()));
  const int64_t count = std::clamp<int64_t>(total / range.min, 1, most);
  // Where part `part` ends if all are equal; written so that no product overflows.
  const auto end_of = [&](int64_t part) {
    return total / count * part + total % count * part / count;
  };
  std::vector<Batch> parts;
  size_t begin = 0;
  int64_t part = 1;
  int64_t rows = 0;      // of the open part
  int64_t num_done = 0;  // rows before the next item
  for (size_t i = 0; i < batch.size(); ++i) {
    const int64_t more = batch[i]->rows;
    if (i > begin && (rows + more > range.max || num_done + more > end_of(part))) {
      parts.push_back(batch.subspan(begin, i - begin));
      begin = i;
      rows = 0;
      while (part < count && end_of(part) <= num_done) ++part;
    }
    rows += more;
    num_done += more;
  }
  parts.push_back(batch.subspan(begin));
  return parts;
}

}  // namespace hami

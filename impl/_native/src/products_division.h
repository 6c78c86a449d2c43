// The division of products into pieces of work, and of these into tasks for threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "products_block.h"
#include "products_plan.h"

namespace samebits {

// A piece is a block of results, or a part of the terms of a block.
class Division {
 public:
  Division(const std::vector<LineProduct>& products, int64_t threads, const Output& output);

  int64_t tasks() const { return parts_of(pieces_, pieces_of_task_); }
  // Computes the pieces of a task.
  void run(int64_t task, const Output& output) const;

 private:
  struct Blocks {
    const LineProduct* product;
    int64_t rows, columns, splits;  // of a block
    int64_t row_blocks, column_blocks;
    int64_t first;  // piece
    bool are_small;  // and a piece has kSmall products of the batch
    // The sums of each piece, and the number of pieces of each block that are done.
    std::unique_ptr<double[]> partial;
    std::unique_ptr<std::atomic<int64_t>[]> done;
  };

  static Blocks divided(const LineProduct& product, int64_t wanted, bool may_split,
                        bool has_few_terms);
  BlockRange range(const Blocks& blocks, int64_t piece) const;

  std::vector<Blocks> blocks_;
  int64_t pieces_ = 0;
  int64_t pieces_of_task_ = 1;
};

}  // namespace samebits

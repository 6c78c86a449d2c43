// The division of products into blocks, and of blocks into tasks for threads.
#pragma once

#include <cstdint>
#include <vector>

#include "products_block.h"
#include "products_plan.h"

namespace samebits {

inline int64_t parts_of(int64_t count, int64_t size) { return (count + size - 1) / size; }

// The division of the products into blocks.
struct Division {
  struct Each {
    int64_t rows, columns;  // of a block
    int64_t row_blocks, column_blocks, first_block;
  };
  std::vector<Each> of;
  int64_t blocks = 0;
  int64_t blocks_of_task = 1;

  Division(const std::vector<LineProduct>& products, int64_t threads);
  BlockRange range(const std::vector<LineProduct>& products, int64_t block, size_t* product) const;
};

}  // namespace samebits

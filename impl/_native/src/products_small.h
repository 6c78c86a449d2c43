// Many small products.
#pragma once

#include <cstdint>

#include "products_block.h"
#include "products_plan.h"

namespace samebits {

// Returns whether a product is a batch of products so small that vectors go across them.
bool are_small(const LineProduct& product);

// Computes `count` products of the batch, rounded.
void compute_small(const LineProduct& product, int64_t first, int64_t count, const Output& output);

}  // namespace samebits

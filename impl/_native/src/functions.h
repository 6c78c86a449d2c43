// Programs of elementwise steps: what the call and its kernels share.
//
// A function of floats is a program of straight-line code, which
// conformance/lab/elementary/programs.py assembles from the equations that JAX traces. All elements
// of a block take a step together, as in a vector machine, so that one dispatch serves many:
//
//     x * x + 1       registers  0: x, 1: result      constants  0: 1.0
//                     steps      multiply_add 1 = 0 0 c0
//
// Common programs are compiled too, so that their registers are those of the processor.
//
// A program of float64 can have a quick program too, which computes the two ends of an interval
// around the result, both rounded. Where they are one number, this is the result, and elsewhere the
// program computes it.
//
// A register is 64 bits for each element of a block: a float64, which also stands for a float of
// fewer bits, an int64, which also stands for an int32, or a truth value, all bits of which are
// equal.
#pragma once

#include <cstddef>
#include <cstdint>

#include "vectors.h"

namespace samebits {

// The steps, in the order of `STEPS` of programs.py. The first ones take float64.
#define SAMEBITS_STEPS(STEP)                                                             \
  STEP(add) STEP(subtract) STEP(multiply) STEP(multiply_add) STEP(add_product)           \
  STEP(subtract_product) STEP(product_error) STEP(sum_error) STEP(rest_of_sum)           \
  STEP(entry) STEP(divide) STEP(greatest) STEP(least)                                    \
  STEP(is_below) STEP(is_at_most) STEP(is_equal) STEP(differs) STEP(negated)             \
  STEP(magnitude) STEP(root) STEP(nearest_integer) STEP(integer_below) STEP(sign)        \
  STEP(is_finite) STEP(to_float32) STEP(to_bfloat16) STEP(to_float16) STEP(to_integer)   \
  STEP(bits_of_float32) STEP(integer_add) STEP(integer_subtract) STEP(integer_multiply)  \
  STEP(integer_greatest) STEP(integer_least) STEP(integer_is_below)                      \
  STEP(integer_is_at_most) STEP(integer_is_equal) STEP(integer_differs)                  \
  STEP(shift_left) STEP(shift_right) STEP(shift_right_logical) STEP(to_int32)            \
  STEP(to_double) STEP(float32_of_bits) STEP(bitwise_and) STEP(bitwise_or)               \
  STEP(bitwise_xor) STEP(bitwise_not) STEP(is_true) STEP(select)

enum class StepName : int64_t {
#define SAMEBITS_NAME(name) k_##name,
  SAMEBITS_STEPS(SAMEBITS_NAME)
#undef SAMEBITS_NAME
  kCount
};

// The most elements of a block. Registers of a few dozen kilobytes stay in the nearest cache.
constexpr int64_t kBlockElements = 256;
// A step has 8 bits for its name, and 12 for each of the register that it writes and of its three
// operands. An operand from kFirstConstant on is a constant.
constexpr int64_t kFirstConstant = 2048;
// The entries of a table: constants from the second operand of the step `entry` on.
constexpr int64_t kEntries = 8;

struct Step {
  int64_t word;
  constexpr int64_t name() const { return word & 0xff; }
  constexpr int64_t result() const { return (word >> 8) & 0xfff; }
  constexpr int64_t operand(size_t number) const { return (word >> (20 + 12 * number)) & 0xfff; }
};

// The types of operands. Results have one of the first ones, floats.
enum Type : int { kOfFloat32, kOfBFloat16, kOfFloat16, kOfFloat64, kOfInt32, kOfInt64, kTypes };
constexpr int kFloats = 4;

struct Argument {
  const void* data;
  Type type;
};

// The first registers are the operands.
struct Program {
  const Step* steps;
  int64_t length;
  const double* constants;
  int64_t constant_count;
  int64_t registers;
  const int64_t* results;  // Their registers: one, or those of the two ends.
  int64_t result_count;
  const Argument* operands;
  int64_t count;
};

// Elements of arrays: `count` from `first` on, or those at `positions` if there are some.
struct Elements {
  int64_t first, count;
  const int64_t* positions;
};

// Computes results in an `Ieee` scope. `registers` has kBlockElements for each register.
using Evaluate = void (*)(const Program& program, Elements elements, double* registers, void* out);

// A program of floats of one type that is compiled for each vector unit, and not interpreted
// (compiled.h).
struct KnownProgram {
  const int64_t* steps;
  int64_t length;
  const int64_t* constants;
  int64_t constant_count;
  Type type;
  int64_t count;
  // Computes the elements from `first` on. Each of `out` has `count` results.
  void (*evaluate)(const Argument* operands, int64_t first, int64_t count, void* const* out);
};

struct FunctionKernels {
  Evaluate evaluate[kFloats];  // By Type.
  // Computes results by a quick program, which is compiled or not, and appends the positions of those
  // in doubt to the ones that there are. Returns the number of positions.
  int64_t (*evaluate_quickly)(const Program& program, const KnownProgram* known, Elements elements,
                              double* registers, double* out, int64_t* positions, int64_t doubts);
  const KnownProgram* known;
  int64_t known_count;
};
SAMEBITS_KERNELS(FunctionKernels, function_kernels)

}  // namespace samebits

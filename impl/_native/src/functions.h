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
// A register is 64 bits for each element of a block: a float64, which also stands for a float of
// fewer bits, an int64, which also stands for an int32, or a truth value, all bits of which are
// equal.
#pragma once

#include <cstddef>
#include <cstdint>

#include "formats.h"
#include "vectors.h"

namespace samebits {

// The steps, in the order of `STEPS` of programs.py. The first ones take float64.
#define SAMEBITS_STEPS(STEP)                                                             \
  STEP(add) STEP(subtract) STEP(multiply) STEP(multiply_add) STEP(divide) STEP(greatest) \
  STEP(least) STEP(is_below) STEP(is_at_most) STEP(is_equal) STEP(differs) STEP(negated) \
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

// The elements of a block: registers of a few dozen kilobytes stay in the nearest cache.
constexpr int64_t kBlockElements = 256;
// A step has 8 bits for its name, and 12 for each of the register that it writes and of its three
// operands. An operand from kFirstConstant on is a constant.
constexpr int64_t kFirstConstant = 2048;

struct Step {
  int64_t word;
  constexpr int64_t name() const { return word & 0xff; }
  constexpr int64_t result() const { return (word >> 8) & 0xfff; }
  constexpr int64_t operand(size_t number) const { return (word >> (20 + 12 * number)) & 0xfff; }
};

// The types of operands: the formats, in their order, and integers. Results are floats.
enum Type : int { kOfFloat32, kOfBFloat16, kOfFloat16, kOfInt32, kOfInt64, kTypes };

struct Argument {
  const void* data;
  Type type;
};

// The first registers are the operands.
struct Program {
  const Step* steps;
  int64_t length;
  const double* constants;
  int64_t result;
  const Argument* operands;
  int64_t count;
};

// Computes results in an `Ieee` scope. `registers` has kBlockElements for each register.
using Evaluate = void (*)(const Program& program, int64_t count, double* registers, void* out);

// A program of one float that is compiled for each vector unit, and not interpreted (compiled.h).
struct KnownProgram {
  const int64_t* steps;
  uint64_t length;
  const int64_t* constants;
  uint64_t constant_count;
  Format format;
  void (*evaluate)(const void* operand, int64_t count, void* out);
};

struct FunctionKernels {
  Evaluate evaluate[3];  // By Format.
  const KnownProgram* known;
  uint64_t known_count;
};
SAMEBITS_KERNELS(FunctionKernels, function_kernels)

}  // namespace samebits

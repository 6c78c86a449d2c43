// The call that evaluates a program of elementwise steps.

#include "functions.h"

#include <cstring>
#include <memory>
#include <vector>

#include "calls.h"
#include "threads.h"

namespace samebits {
namespace {

namespace ffi = xla::ffi;

Type type_of(const ffi::AnyBuffer& buffer) {
  if (buffer.element_type() == ffi::DataType::S32) return kOfInt32;
  if (buffer.element_type() == ffi::DataType::S64) return kOfInt64;
  const Format format = format_of(buffer);
  return format >= kFloat64 ? kTypes : static_cast<Type>(format);
}

// Returns whether each step has a name and stays within the registers and the constants.
bool is_valid(const Program& program, int64_t registers, int64_t constants) {
  for (int64_t i = 0; i < program.length; ++i) {
    const Step& step = program.steps[i];
    if (step.name() >= static_cast<int64_t>(StepName::kCount)) return false;
    if (step.result() >= registers) return false;
    for (size_t number = 0; number < 3; ++number) {
      const int64_t operand = step.operand(number);
      const bool is_constant = operand >= kFirstConstant;
      if (operand >= (is_constant ? kFirstConstant + constants : registers)) return false;
    }
  }
  return program.count <= registers && program.result >= 0 && program.result < registers;
}

// Returns the program that is compiled, or null.
const KnownProgram* known(const Program& program, uint64_t constants, Format format) {
  const FunctionKernels& kernels = function_kernels();
  for (uint64_t i = 0; i < kernels.known_count; ++i) {
    const KnownProgram& each = kernels.known[i];
    const uint64_t length = static_cast<uint64_t>(program.length);
    if (length == each.length && constants == each.constant_count && format == each.format &&
        std::memcmp(program.steps, each.steps, length * sizeof(Step)) == 0 &&
        std::memcmp(program.constants, each.constants, constants * sizeof(double)) == 0)
      return &each;
  }
  return nullptr;
}

ffi::Error evaluate(ffi::RemainingArgs args, ffi::Result<ffi::AnyBuffer> result,
                    ffi::Span<const int64_t> steps, ffi::Span<const double> constants,
                    int64_t registers, int64_t at) {
  static_assert(sizeof(Step) == sizeof(int64_t), "a step is one word");
  const Format format = format_of(*result);
  const int64_t count = static_cast<int64_t>(result->element_count());
  std::vector<Argument> operands;
  for (size_t i = 0; i < args.size(); ++i) {
    auto buffer = args.get<ffi::AnyBuffer>(i);
    if (buffer.has_error()) return buffer.error();
    if (static_cast<int64_t>(buffer->element_count()) != count)
      return ffi::Error::InvalidArgument("samebits: a function of arrays of different sizes");
    operands.push_back({buffer->untyped_data(), type_of(*buffer)});
    if (operands.back().type == kTypes) return ffi::Error::InvalidArgument("samebits: no such type");
  }
  const Program program = {reinterpret_cast<const Step*>(steps.begin()),
                           static_cast<int64_t>(steps.size()),
                           constants.begin(),
                           at,
                           operands.data(),
                           static_cast<int64_t>(operands.size())};
  // On this thread alone: arrays are small (impl/_native/functions.py).
  Ieee scope;
  const KnownProgram* compiled = known(program, constants.size(), format);
  if (compiled != nullptr && operands.size() == 1 &&
      operands[0].type == static_cast<Type>(format)) {
    compiled->evaluate(operands[0].data, count, result->untyped_data());
    return ffi::Error::Success();
  }
  if (format == kFormats || !is_valid(program, registers, static_cast<int64_t>(constants.size())))
    return ffi::Error::InvalidArgument("samebits: no such function");
  const std::unique_ptr<double[]> memory(new double[registers * kBlockElements]);
  function_kernels().evaluate[format](program, count, memory.get(), result->untyped_data());
  return ffi::Error::Success();
}

}  // namespace
}  // namespace samebits

SAMEBITS_CALL(samebits_function, samebits::evaluate,
              xla::ffi::Ffi::Bind()
                  .RemainingArgs()
                  .Ret<xla::ffi::AnyBuffer>()
                  .Attr<xla::ffi::Span<const int64_t>>("steps")
                  .Attr<xla::ffi::Span<const double>>("constants")
                  .Attr<int64_t>("registers")
                  .Attr<int64_t>("result"));

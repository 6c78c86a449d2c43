// The call that evaluates a program of elementwise steps.

#include "functions.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <vector>

#include "calls.h"
#include "threads.h"

namespace samebits {
namespace {

namespace ffi = xla::ffi;

// The fewest steps of all elements that pay for a second thread.
constexpr int64_t kFewestSteps = 1'000'000;
// The bytes of a float, by its type.
constexpr int64_t kBytes[kFloats] = {4, 2, 2, 8};
// The elements whose doubts are settled together.
constexpr int64_t kQuickElements = 8 * kBlockElements;

Type type_of(const ffi::AnyBuffer& buffer) {
  switch (buffer.element_type()) {
    case ffi::DataType::F32: return kOfFloat32;
    case ffi::DataType::BF16: return kOfBFloat16;
    case ffi::DataType::F16: return kOfFloat16;
    case ffi::DataType::F64: return kOfFloat64;
    case ffi::DataType::S32: return kOfInt32;
    case ffi::DataType::S64: return kOfInt64;
    default: return kTypes;
  }
}

// Returns whether each step has a name and stays within the registers and the constants, and so do
// the results.
bool is_valid(const Program& program, int64_t results) {
  for (int64_t i = 0; i < program.length; ++i) {
    const Step& step = program.steps[i];
    if (step.name() >= static_cast<int64_t>(StepName::kCount)) return false;
    if (step.result() >= program.registers) return false;
    for (size_t number = 0; number < 3; ++number) {
      const int64_t operand = step.operand(number);
      const bool is_constant = operand >= kFirstConstant;
      const bool is_table = step.name() == static_cast<int64_t>(StepName::k_entry) && number == 1;
      const int64_t last = operand + (is_table ? kEntries - 1 : 0);
      if (last >= (is_constant ? kFirstConstant + program.constant_count : program.registers))
        return false;
    }
  }
  if (program.count > program.registers || program.result_count != results) return false;
  for (int64_t i = 0; i < results; ++i)
    if (program.results[i] < 0 || program.results[i] >= program.registers) return false;
  return true;
}

// Returns the program that is compiled, or null.
const KnownProgram* known(const Program& program, Type type) {
  const FunctionKernels& kernels = function_kernels();
  for (int64_t i = 0; i < program.count; ++i)
    if (program.operands[i].type != type) return nullptr;
  const auto is_same = [&](const KnownProgram& each) {
    const auto bytes = [](int64_t words) { return static_cast<size_t>(words) * sizeof(int64_t); };
    return program.length == each.length && program.constant_count == each.constant_count &&
           type == each.type && program.count == each.count &&
           std::memcmp(program.steps, each.steps, bytes(each.length)) == 0 &&
           std::memcmp(program.constants, each.constants, bytes(each.constant_count)) == 0;
  };
  // A thread calls few programs again and again, and a program lies where it lay as a rule.
  constexpr uintptr_t kRecent = 16;
  static thread_local const KnownProgram* recent[kRecent];
  const KnownProgram*& found =
      recent[(reinterpret_cast<uintptr_t>(program.steps) * 0x9e3779b97f4a7c15ull >> 32) % kRecent];
  if (found != nullptr && is_same(*found)) return found;
  const KnownProgram* const end = kernels.known + kernels.known_count;
  const KnownProgram* const each = std::find_if(kernels.known, end, is_same);
  return each == end ? nullptr : found = each;
}

// Registers of a program, each of which starts a line of the cache.
class Registers {
 public:
  double* of(const Program& program) {
    if (program.registers > count_) {
      count_ = 0;  // In case that there is no memory.
      memory_.reset(new double[static_cast<size_t>(program.registers * kBlockElements) + kLine]);
      count_ = program.registers;
    }
    const uintptr_t line = sizeof(double) * kLine, at = reinterpret_cast<uintptr_t>(memory_.get());
    return reinterpret_cast<double*>((at + line - 1) / line * line);
  }

 private:
  static constexpr size_t kLine = 8;
  std::unique_ptr<double[]> memory_;
  int64_t count_ = 0;
};

// The most operands of a compiled program.
constexpr int64_t kMostKnown = 2;

// Evaluates a compiled program of few elements, and the steps of those in doubt; returns whether it
// did.
bool evaluate_few(const Frame& frame) {
  const int64_t number = frame.operands();
  if (!frame.runs(1, 8) || number > kMostKnown) return false;
  const ffi::AnyBuffer result = frame.result(0);
  const int64_t count = static_cast<int64_t>(result.element_count());
  if (count > kBlockElements) return false;
  Argument operands[kMostKnown];
  for (int64_t i = 0; i < number; ++i) {
    const ffi::AnyBuffer operand = frame.operand(i);
    operands[i] = {operand.untyped_data(), type_of(operand)};
    if (static_cast<int64_t>(operand.element_count()) != count) return false;
  }
  // The attributes: constants, quick_constants, -registers, -results, -steps, registers, ...
  const bool is_quick = frame.array<int64_t>(4).size() != 0;
  const auto steps = frame.array<int64_t>(is_quick ? 4 : 7);
  const auto constants = frame.array<double>(is_quick ? 1 : 0);
  const Program program = {reinterpret_cast<const Step*>(steps.begin()),
                           static_cast<int64_t>(steps.size()),
                           constants.begin(),
                           static_cast<int64_t>(constants.size()),
                           0, nullptr, 0, operands, number};
  const KnownProgram* const compiled = known(program, type_of(result));
  if (compiled == nullptr) return false;
  Ieee scope;
  double ends[kBlockElements];
  void* const out[] = {result.untyped_data(), ends};
  compiled->evaluate(operands, 0, count, out);
  if (!is_quick) return true;
  const double* low = static_cast<const double*>(out[0]);
  int64_t positions[kBlockElements], doubts = 0;
  for (int64_t i = 0; i < count; ++i) {
    positions[doubts] = i;
    doubts += std::memcmp(low + i, ends + i, sizeof(double)) != 0;
  }
  if (doubts == 0) return true;
  static thread_local Registers registers;
  Program whole = program;
  const auto whole_steps = frame.array<int64_t>(7), results = frame.array<int64_t>(6);
  whole.steps = reinterpret_cast<const Step*>(whole_steps.begin());
  whole.length = static_cast<int64_t>(whole_steps.size());
  whole.constants = frame.array<double>(0).begin();
  whole.constant_count = static_cast<int64_t>(frame.array<double>(0).size());
  whole.registers = frame.number<int64_t>(5);
  whole.results = results.begin();
  whole.result_count = static_cast<int64_t>(results.size());
  if (!is_valid(whole, 1)) return false;
  function_kernels().evaluate[kOfFloat64](whole, {0, doubts, positions}, registers.of(whole),
                                          out[0]);
  return true;
}

// A call: a program of results of a type, and a quick one, which may have no steps. Either may be
// known.
struct Function {
  Type type;
  Program program, quick;
  const KnownProgram *known_program, *known_quick;
  void* out;

  bool is_quick() const { return quick.length != 0; }

  // Returns the steps that most elements take, or 0 if they are not valid.
  int64_t steps() const {
    const Program& first = is_quick() ? quick : program;
    if (type == kTypes || (is_quick() && type != kOfFloat64)) return 0;
    if ((is_quick() ? known_quick : known_program) != nullptr) return first.length;
    return is_valid(first, is_quick() ? 2 : 1) ? first.length : 0;
  }

  // Computes results; returns false if steps that they need are not valid.
  bool evaluate(int64_t first, int64_t last) const {
    const FunctionKernels& kernels = function_kernels();
    const Elements elements = {first, last - first, nullptr};
    if (!is_quick()) {
      if (known_program == nullptr) {
        kernels.evaluate[type](program, elements, Registers().of(program), out);
      } else {
        void* const results[] = {static_cast<char*>(out) + first * kBytes[type]};
        known_program->evaluate(program.operands, first, elements.count, results);
      }
      return true;
    }
    Registers of_quick, of_program;
    bool is_fit = false;
    int64_t positions[kQuickElements + kBlockElements];
    int64_t doubts = 0;
    for (int64_t i = first; i < last; i += kQuickElements) {
      const int64_t count = std::min(kQuickElements, last - i);
      doubts = kernels.evaluate_quickly(quick, known_quick, {i, count, nullptr}, of_quick.of(quick),
                                        static_cast<double*>(out), positions, doubts);
      if (doubts < kBlockElements && (doubts == 0 || i + count < last)) continue;
      is_fit = is_fit || is_valid(program, 1);
      if (!is_fit) return false;
      kernels.evaluate[type](program, {0, doubts, positions}, of_program.of(program), out);
      doubts = 0;
    }
    return true;
  }
};

ffi::Error evaluate(ffi::ThreadPool pool, ffi::RemainingArgs args,
                    ffi::Result<ffi::AnyBuffer> result, ffi::Span<const int64_t> steps,
                    ffi::Span<const double> constants, int64_t registers,
                    ffi::Span<const int64_t> results, ffi::Span<const int64_t> quick_steps,
                    ffi::Span<const double> quick_constants, int64_t quick_registers,
                    ffi::Span<const int64_t> quick_results) {
  static_assert(sizeof(Step) == sizeof(int64_t), "a step is one word");
  const Type type = type_of(*result);
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
  const auto size = [](const auto& span) { return static_cast<int64_t>(span.size()); };
  const auto program = [&](auto of_steps, auto of_constants, int64_t number, auto of_results) {
    return Program{reinterpret_cast<const Step*>(of_steps.begin()), size(of_steps),
                   of_constants.begin(), size(of_constants), number,
                   of_results.begin(), size(of_results),
                   operands.data(), size(operands)};
  };
  Function function = {type, program(steps, constants, registers, results),
                       program(quick_steps, quick_constants, quick_registers, quick_results),
                       nullptr, nullptr, result->untyped_data()};
  function.known_program = function.is_quick() ? nullptr : known(function.program, type);
  function.known_quick = function.is_quick() ? known(function.quick, type) : nullptr;
  const int64_t length = type < kFloats ? function.steps() : 0;
  std::atomic<bool> is_unfit{length == 0};
  if (!is_unfit) {
    const int64_t threads = threads_of(pool, count * length < kFewestSteps);
    each_part(pool, threads, count, [&](int64_t first, int64_t last) {
      if (!function.evaluate(first, last)) is_unfit = true;
    });
  }
  if (is_unfit) return ffi::Error::InvalidArgument("samebits: no such function");
  return ffi::Error::Success();
}

}  // namespace
}  // namespace samebits

SAMEBITS_CALL_WITH(samebits::evaluate_few, samebits_function, samebits::evaluate,
              xla::ffi::Ffi::Bind()
                  .Ctx<xla::ffi::ThreadPool>()
                  .RemainingArgs()
                  .Ret<xla::ffi::AnyBuffer>()
                  .Attr<xla::ffi::Span<const int64_t>>("steps")
                  .Attr<xla::ffi::Span<const double>>("constants")
                  .Attr<int64_t>("registers")
                  .Attr<xla::ffi::Span<const int64_t>>("results")
                  .Attr<xla::ffi::Span<const int64_t>>("quick_steps")
                  .Attr<xla::ffi::Span<const double>>("quick_constants")
                  .Attr<int64_t>("quick_registers")
                  .Attr<xla::ffi::Span<const int64_t>>("quick_results"));

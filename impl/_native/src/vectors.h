// The vector units that kernels are compiled for, and the choice of one when a process starts.
//
// CMakeLists.txt compiles each `*_kernels.cc` once for each unit, with SAMEBITS_UNIT naming it. The
// results do not depend on the unit.
#pragma once

#include <cstdlib>
#include <cstring>

namespace samebits {

enum class Unit { kBaseline, kAvx2, kAvx512 };

// Returns the widest unit of this processor, or a narrower one that the environment variable
// SAMEBITS_VECTORS (baseline, avx2 or avx512) asks for.
inline Unit vector_unit() {
  static const Unit unit = [] {
    Unit widest = Unit::kBaseline;
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (has_avx2) widest = Unit::kAvx2;
    if (has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
      widest = Unit::kAvx512;
#endif
    const char* asked = std::getenv("SAMEBITS_VECTORS");
    if (asked != nullptr) {
      if (std::strcmp(asked, "baseline") == 0) return Unit::kBaseline;
      if (std::strcmp(asked, "avx2") == 0 && widest >= Unit::kAvx2) return Unit::kAvx2;
    }
    return widest;
  }();
  return unit;
}

// Declares the tables of kernels `Kernels NAME_UNIT`, and `const Kernels& NAME()`, the widest one.
#if defined(__x86_64__)
#define SAMEBITS_KERNELS(Kernels, NAME)                        \
  extern const Kernels NAME##_baseline;                        \
  extern const Kernels NAME##_avx2;                            \
  extern const Kernels NAME##_avx512;                          \
  inline const Kernels& NAME() {                               \
    switch (vector_unit()) {                                   \
      case Unit::kAvx512: return NAME##_avx512;                \
      case Unit::kAvx2: return NAME##_avx2;                    \
      default: return NAME##_baseline;                         \
    }                                                          \
  }
#else
#define SAMEBITS_KERNELS(Kernels, NAME)                        \
  extern const Kernels NAME##_baseline;                        \
  inline const Kernels& NAME() { return NAME##_baseline; }
#endif

}  // namespace samebits

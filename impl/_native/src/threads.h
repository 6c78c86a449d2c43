// Threads of XLA's pool, and the mode of the floating-point unit in them.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "xla/ffi/api/ffi.h"

namespace samebits {

// A scope of IEEE 754's default mode: XLA's threads take subnormal numbers for zero.
class Ieee {
 public:
#if defined(__x86_64__)
  Ieee() : before_(_mm_getcsr()) { _mm_setcsr(0x1f80); }
  ~Ieee() { _mm_setcsr(before_); }

 private:
  unsigned before_;
#elif defined(__aarch64__)
  Ieee() {
    __asm__ volatile("mrs %0, fpcr" : "=r"(before_));
    __asm__ volatile("msr fpcr, %0" : : "r"(uint64_t{0}));
  }
  ~Ieee() { __asm__ volatile("msr fpcr, %0" : : "r"(before_)); }

 private:
  uint64_t before_;
#else
  Ieee() {}
  ~Ieee() {}
#endif
  Ieee(const Ieee&) = delete;
  Ieee& operator=(const Ieee&) = delete;
};

// ThreadSanitizer (`nox -s native -- thread`) does not see the order of XLA's accesses to memory,
// which it did not compile. A lock tells it: a task starts after the call that gave it to the pool, and
// a call after earlier calls. The pool may run a task at once, in the thread that gives it.
class Ordered {
 public:
#if defined(__SANITIZE_THREAD__)
  Ordered() { mutex().lock(); }
  ~Ordered() { mutex().unlock(); }

 private:
  static std::recursive_mutex& mutex() {
    static std::recursive_mutex of_all;
    return of_all;
  }
#else
  Ordered() {}
  ~Ordered() {}
#endif
  Ordered(const Ordered&) = delete;
  Ordered& operator=(const Ordered&) = delete;
};

// The calls that run now: those of several devices of a process, or of independent operations.
inline std::atomic<int64_t>& calls() {
  static std::atomic<int64_t> number{0};
  return number;
}

// The fewest terms of a sum that pay for a second thread.
constexpr int64_t kFewestTerms = 50'000;

// The number of threads of a call, which leaves one processor to each other call. The pool has a
// thread for each device of a process, even where there are fewer processors.
inline int64_t threads_of(const xla::ffi::ThreadPool& pool, bool is_small = false) {
  if (is_small) return 1;
  static const int64_t processors = std::max(1u, std::thread::hardware_concurrency());
  const int64_t threads = std::min<int64_t>(static_cast<int64_t>(pool.num_threads()), processors);
  return std::max<int64_t>(1, threads - calls());
}

// Calls work(i) for each i below count, each in an `Ieee` scope, on this thread and on threads of
// the pool. This thread takes tasks too, and waits only for tasks that have begun, so a call from
// a thread of the pool ends even if no other thread is free.
template <typename Work>
void parallel(xla::ffi::ThreadPool& pool, int64_t count, const Work& work) {
  const int64_t helpers = count <= 1 ? 0 : std::min(threads_of(pool), count) - 1;
  struct Call {
    Call() { ++calls(); }
    ~Call() { --calls(); }
  } call;
  if (helpers <= 0) {
    Ieee scope;
    for (int64_t i = 0; i < count; ++i) work(i);
    return;
  }
  struct Shared {
    std::atomic<int64_t> next{0};
    std::atomic<int64_t> done{0};
    std::mutex mutex;
    std::condition_variable ended;
  };
  auto shared = std::make_shared<Shared>();
  // A helper that starts after the last task was taken reads `shared` alone.
  auto take = [shared, count, &work] {
    Ieee scope;
    int64_t i;
    while ((i = shared->next.fetch_add(1)) < count) {
      work(i);
      if (shared->done.fetch_add(1) + 1 == count) {
        std::lock_guard<std::mutex> lock(shared->mutex);
        shared->ended.notify_all();
      }
    }
  };
  for (int64_t i = 0; i < helpers; ++i) {
    Ordered before_the_task;
    pool.Schedule([take] {
      { Ordered after_the_call; }
      take();
    });
  }
  take();
  std::unique_lock<std::mutex> lock(shared->mutex);
  shared->ended.wait(lock, [&] { return shared->done.load() == count; });
}

// Calls work(first, last) for parts of `count`: several for each thread, as one may start late.
template <typename Work>
void each_part(xla::ffi::ThreadPool& pool, int64_t threads, int64_t count, const Work& work) {
  const int64_t tasks = std::min(count, threads == 1 ? 1 : 8 * threads);
  parallel(pool, tasks,
           [&](int64_t task) { work(count * task / tasks, count * (task + 1) / tasks); });
}

}  // namespace samebits

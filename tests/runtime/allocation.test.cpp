// SPDX-License-Identifier: Apache-2.0
// Memory ends at every allocation in turn. A program of its own: it replaces new and delete.
#include <sched.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "megaconv/error.hpp"
#include "tasks/tiling.hpp"
#include "tests/catch.hpp"
#include "tests/runtime/child.hpp"
#include "tests/runtime/exact_run.hpp"

using namespace megaconv;
using namespace megaconv::test;

namespace {

constexpr long kNone = -1;
thread_local long left = kNone;  // allocations of this thread until one fails; kNone: none does
std::atomic<long> num_allocations{0};

void* allocate(std::size_t bytes, std::size_t alignment) {
  ++num_allocations;
  const bool fails = left == 0;
  if (left >= 0) --left;
  void* const memory =
      fails ? nullptr : std::aligned_alloc(alignment, (bytes + alignment) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace {

// To the next CPU that the caller may use, and back to all of them.
void move_to_next_cpu() {
  cpu_set_t all, one;
  if (sched_getaffinity(0, sizeof all, &all) != 0) return;
  int cpu = sched_getcpu();
  do {
    cpu = (cpu + 1) % CPU_SETSIZE;
  } while (!CPU_ISSET(cpu, &all));
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  sched_setaffinity(0, sizeof one, &one);
  sched_setaffinity(0, sizeof all, &all);
}

enum class End { right, out_of_memory, wrong };

/// Calls `work` with one allocation, number `index`, that fails.
template <class Work>
End end_without(long index, const Work& work) {
  left = index;
  End end = End::right;
  try {
    work();
  } catch (const std::bad_alloc&) {
    end = End::out_of_memory;
  } catch (const Error& error) {
    end = error.status() == Status::out_of_memory ? End::out_of_memory : End::wrong;
  }
  left = kNone;
  return end;
}

// What happened at the points where an allocation failed, each in a process of its own.
struct Tally {
  long count = 0, hung = 0, wrong = 0;

  /// `work`, in a child, with allocation number `count` that fails, and then `is_right()`. Whether
  /// there are more such points.
  template <class Work, class IsRight>
  bool try_next(const Work& work, const IsRight& is_right) {
    enum Status : int { failed = 7, last = 8, bad = 9 };
    const int status = run_in_child([&]() -> int {
      const End end = end_without(count, work);
      if (end == End::wrong || !is_right()) return bad;
      return end == End::right ? last : failed;
    });
    if (status == last) return false;
    ++count;
    hung += status == -SIGALRM;
    wrong += status != -SIGALRM && status != failed;
    return hung + wrong < 10;
  }

  void check(const std::string& what, long least) const {
    std::printf("%s: %ld points, %ld hung, %ld wrong\n", what.c_str(), count, hung, wrong);
    CHECK(count >= least);
    CHECK(hung == 0);
    CHECK(wrong == 0);
  }
};

}  // namespace

TEST_CASE("whichever allocation of Plan::create fails, it says so, and the next plan is right") {
  if (!kChildrenMayRun) SKIP("no threads after a fork");
  for (const Algorithm algorithm :
       {Algorithm::winograd, Algorithm::fused_winograd, Algorithm::direct}) {
    const ConvProblem problem = parse_problem("n1c8h7k8");
    const PlanOptions options = exact_options(algorithm, 2);
    Tally points;
    while (points.try_next([&] { Plan::create(problem, options); },
                           [&] { return ExactRun("n1c8h7k8", options).runs_right(); })) {
    }
    points.check(std::string("Plan::create, ") + to_string(algorithm), 100);
  }
}

TEST_CASE("whichever allocation of a first run fails, it says so, and the next run is right") {
  if (!kChildrenMayRun) SKIP("no threads after a fork");
  for (const Algorithm algorithm :
       {Algorithm::winograd, Algorithm::fused_winograd, Algorithm::direct}) {
    ExactRun run(4, algorithm);
    Tally points;
    while (points.try_next([&] { run.execute(); },
                           [&] { return run.runs_right() && run.runs_right(); })) {
    }
    points.check(std::string("first run, ") + to_string(algorithm), 4);  // three threads at least
  }
}

TEST_CASE("runs after the first allocate nothing, on whatever CPU their caller is") {
  for (const Algorithm algorithm :
       {Algorithm::winograd, Algorithm::fused_winograd, Algorithm::direct}) {
    for (const std::uint32_t threads : {1u, 4u}) {
      ExactRun run(threads, algorithm);
      run.execute();
      const long before = num_allocations;
      for (int i = 0; i < 100; ++i) {
        if (i % 10 == 9) move_to_next_cpu();
        run.execute();
      }
      CHECK(num_allocations == before);
      CHECK(run.is_right());
    }
  }
}

// SPDX-License-Identifier: Apache-2.0
// Memory ends at every allocation in turn. A program of its own: it replaces new and delete.
#include <atomic>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "megaconv/error.hpp"
#include "megaconv/network.hpp"
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

/// The number of allocations of `work` on this thread.
template <class Work>
long allocations_of(const Work& work) {
  constexpr long kMany = 1L << 40;
  left = kMany;
  work();
  const long used = kMany - left;
  left = kNone;
  return used;
}

}  // namespace

TEST_CASE("whichever allocation of Plan::create fails, it says so, and the next plan is right") {
  const ConvProblem problem = parse_problem("n1c8h7k8");
  const PlanOptions options = exact_options(Algorithm::winograd, 2);
  const long points = allocations_of([&] { Plan::create(problem, options); });
  REQUIRE(points > 10);
  long wrong = 0;
  for (long point = 0; point < points; ++point) {
    const End end = end_without(point, [&] { Plan::create(problem, options); });
    wrong += end != End::out_of_memory;
    if (point % 100 == 0) wrong += !ExactRun("n1c8h7k8", options).runs_right();
  }
  INFO(points << " points");
  CHECK(wrong == 0);
  CHECK(ExactRun("n1c8h7k8", options).runs_right());
}

TEST_CASE("whichever allocation of a first run fails, it says so, and the next run is right") {
  if (!kChildrenMayRun) SKIP("no threads after a fork");
  enum Status : int { right = 7, last = 8, wrong_end = 9, wrong_result = 10 };
  for (const Algorithm algorithm :
       {Algorithm::winograd, Algorithm::fused_winograd, Algorithm::direct}) {
    long point = 0;
    for (int status = right; status == right; ++point) {
      CAPTURE(static_cast<int>(algorithm), point);
      status = run_in_child([&]() -> int {
        ExactRun run(4, algorithm);
        const End end = end_without(point, [&] { run.execute(); });
        if (end == End::right) return run.is_right() ? last : wrong_result;
        if (end == End::wrong) return wrong_end;
        return run.runs_right() && run.runs_right() ? right : wrong_result;
      });
      CHECK((status == right || status == last));
    }
    CHECK(point > 4);  // three threads at least
  }
}

TEST_CASE("runs after the first allocate nothing") {
  for (const Algorithm algorithm :
       {Algorithm::winograd, Algorithm::fused_winograd, Algorithm::direct}) {
    for (const std::uint32_t threads : {1u, 4u}) {
      ExactRun run(threads, algorithm);
      run.execute();
      const long before = num_allocations;
      for (int i = 0; i < 100; ++i) run.execute();
      CHECK(num_allocations == before);
      CHECK(run.is_right());
    }
  }
}

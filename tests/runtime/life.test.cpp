// SPDX-License-Identifier: Apache-2.0
// What a process lives through: children, an end in the middle of a run, a lack of threads, other
// arithmetic of the caller, memory that others have used.
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "megaconv/error.hpp"
#include "runtime/worker_pool.hpp"
#include "tests/catch.hpp"
#include "tests/runtime/child.hpp"
#include "tests/runtime/exact_run.hpp"

#if defined(__x86_64__)
#include <pmmintrin.h>
#endif

using namespace megaconv;
using namespace megaconv::test;
using namespace std::chrono_literals;

namespace {

constexpr int kDone = 7;  // a status that no child ends with by chance

// Leaves room for so many MiB more than the process has now.
bool limit_memory(rlim_t more_mib) {
  std::string pages;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t now = std::stoull(pages) * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
  const rlimit limit{now + (more_mib << 20), RLIM_INFINITY};
  return setrlimit(RLIMIT_AS, &limit) == 0;
}

int status_of(bool right) { return right ? kDone : 1; }

}  // namespace

TEST_CASE("a child process runs the plans of its parent") {
  if (!kChildrenMayRun) SKIP("no threads after a fork");
  for (const std::uint32_t threads : {1u, 2u, 3u}) {
    CAPTURE(threads);
    ExactRun run(threads);
    REQUIRE(run.runs_right());
    CHECK(run_in_child([&] { return status_of(run.runs_right() && run.runs_right()); }) == kDone);
    CHECK(run_in_child([&] {
            // a grandchild
            return status_of(run.runs_right() &&
                             run_in_child([&] { return status_of(run.runs_right()); }) == kDone);
          }) == kDone);
    CHECK(run.runs_right());
  }
}

TEST_CASE("a child process runs plans that its parent makes while another thread executes") {
  if (!kChildrenMayRun) SKIP("no threads after a fork");
  ExactRun busy(2), single(1), several(3);
  REQUIRE(busy.runs_right());
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop) busy.execute();
  });
  for (int i = 0; i < 20; ++i) {
    CAPTURE(i);
    std::this_thread::sleep_for(1ms);
    const int end =
        run_in_child([&] { return status_of(single.runs_right() && several.runs_right()); });
    CHECK(end == kDone);
    if (end != kDone) break;
  }
  stop = true;
  other.join();
}

TEST_CASE("a child process that has run nothing leaves by exit()") {
  if (!kChildrenMayRun) SKIP("no threads after a fork");
  REQUIRE(ExactRun(2).runs_right());
  CHECK(run_in_child([]() -> int { std::quick_exit(kDone); }) == kDone);
  CHECK(run_in_child([]() -> int { std::exit(kDone); }) == kDone);
}

TEST_CASE("exit() ends a process while another thread runs, and while none does") {
  if (!kChildrenMayRun) SKIP("no threads after a fork");
  const auto leave = [](bool during_run) {
    return run_in_child([during_run]() -> int {
      std::atomic<int> running{0};
      std::thread([&] {
        WorkerPool::shared().run(3, [&](std::uint32_t) {
          ++running;
          while (during_run) std::this_thread::sleep_for(1ms);
        });
        running = 3;
      }).detach();
      while (running != 3) std::this_thread::sleep_for(1ms);
      std::exit(kDone);
    });
  };
  CHECK(leave(true) == kDone);
  CHECK(leave(false) == kDone);
}

TEST_CASE("a run for which the system has no threads says so, and the next one is right") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  SKIP("sanitizers need address space of their own");
#else
  const int end = run_in_child([] {
    ExactRun many(200), few(2);
    if (!limit_memory(64)) return 2;  // room for the stacks of a few threads
    std::string message;
    try {
      many.execute();
    } catch (const Error& error) {
      message = error.what();
      if (error.status() != Status::out_of_memory) return 3;
    }
    if (message.find("cannot start worker thread") != 0) return 4;
    if (message.find(" of 199: ") == std::string::npos) return 5;
    if (!few.runs_right()) return 6;
    const rlimit unlimited{RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(RLIMIT_AS, &unlimited);
    return status_of(many.runs_right());
  });
  CHECK(end == kDone);
#endif
}

TEST_CASE("the reference makes do with the threads that it gets") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  SKIP("sanitizers need address space of their own");
#else
  const Layer layer(parse_problem("n1c8h9k12"), true);
  const int end = run_in_child([&] {
    return status_of(limit_memory(4) && !layer.reference().empty());  // less than a stack
  });
  CHECK(end == kDone);
#endif
}

TEST_CASE("whatever part of a workspace is overwritten between two runs, the next is right") {
  for (const Algorithm algorithm :
       {Algorithm::winograd, Algorithm::fused_winograd, Algorithm::direct}) {
    ExactRun run(2, algorithm);
    auto* const bytes = reinterpret_cast<std::uint8_t*>(run.workspace.data());
    const std::size_t size = run.plan.workspace_bytes();
    const std::size_t line = sizeof(ExactRun::Line);
    const auto overwrite = [&](std::size_t begin, std::size_t end, int value) {
      CAPTURE(static_cast<int>(algorithm), begin, end, value);
      REQUIRE(run.runs_right());
      REQUIRE(run.runs_right());  // by now all counters are above their totals
      std::memset(bytes + begin, value, end - begin);
      CHECK(run.runs_right());
      CHECK(run.runs_right());
    };
    for (const int value : {0, 1, 0x7f, 0xff}) {
      // Owner word, epoch, each line of the first ones, all behind a line.
      overwrite(0, 8, value);
      overwrite(8, 12, value);
      for (std::size_t begin = 0; begin < std::min(size, 6 * line); begin += line) {
        overwrite(begin, begin + line, value);
        overwrite(begin, size, value);
      }
      overwrite(line + 4, line + 5, value);
      overwrite(2 * line + 4, 2 * line + 5, value);
    }
  }
}

TEST_CASE("results do not depend on the caller's floating-point environment, and leave it alone") {
  for (const char* problem : {"n1c32h20k32", "n1c32h20k32+f16", "n2c16h9k24+i8+scale"}) {
    CAPTURE(problem);
    const ConvProblem p = parse_problem(problem);
    PlanOptions options;
    options.num_threads = 3;
    if (p.dtype != DataType::i8) options.tiling.algorithm = Algorithm::winograd;
    const Plan plan = Plan::create(p, options);
    const auto numbers = [](DataType dtype, std::int64_t count, std::uint64_t seed) {
      std::vector<std::byte> stored(static_cast<std::size_t>(count) * size_of(dtype));
      fill(dtype, stored.data(), count, {.multiple = dtype == DataType::i8 ? 20.0f : 1e-3f}, seed);
      return stored;
    };
    auto x = numbers(p.dtype, p.x_size(), 1);
    const auto w = numbers(p.dtype, p.w_size(), 2), scale = numbers(p.vector_type(), p.k, 3);
    if (p.dtype == DataType::f32) {  // products become denormal
      for (std::size_t i = 0; i < x.size(); i += sizeof(float)) {
        float value = 0;
        std::memcpy(&value, &x[i], sizeof value);
        value *= 1e-34f;
        std::memcpy(&x[i], &value, sizeof value);
      }
    }
    std::vector<ExactRun::Line> workspace(plan.workspace_bytes() / sizeof(ExactRun::Line));
    const auto execute = [&] {
      std::vector<std::byte> y(static_cast<std::size_t>(p.y_size()) * size_of(p.dtype));
      plan.execute({.x = x.data(),
                    .w = w.data(),
                    .scale = p.epilogue.scale ? scale.data() : nullptr,
                    .y = y.data()},
                   workspace.data(), plan.workspace_bytes());
      return y;
    };
    const auto expected = execute();
    for (const int rounding : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
      std::fesetround(rounding);
      std::feclearexcept(FE_ALL_EXCEPT);
      const auto y = execute();
      const int after = std::fegetround(), raised = std::fetestexcept(FE_ALL_EXCEPT);
      std::fesetround(FE_TONEAREST);
      CHECK(y == expected);
      CHECK(after == rounding);
      CHECK(raised == 0);
    }
#if defined(__x86_64__)
    const unsigned usual = _mm_getcsr();
    _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON);
    _MM_SET_DENORMALS_ZERO_MODE(_MM_DENORMALS_ZERO_ON);
    const unsigned flushing = _mm_getcsr();
    const auto y = execute();
    const unsigned after = _mm_getcsr();
    _mm_setcsr(usual);
    CHECK(y == expected);
    CHECK(after == flushing);
#endif
  }
}

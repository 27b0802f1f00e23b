// SPDX-License-Identifier: Apache-2.0
// The pool of threads: every worker once a run, asleep without one, and on the CPUs it should be.
#include "runtime/worker_pool.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "megaconv/error.hpp"
#include "megaconv/plan.hpp"
#include "tests/catch.hpp"

using namespace megaconv;

namespace {

// CPU time of all threads of this process.
double cpu_ms() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto ms = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_usec) * 1e-3;
  };
  return ms(usage.ru_utime) + ms(usage.ru_stime);
}

std::vector<int> own_cpus() {
  cpu_set_t set;
  REQUIRE(sched_getaffinity(0, sizeof set, &set) == 0);
  return cpus_of(set);
}

void set_own_cpus(const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(cpu, &set);
  REQUIRE(sched_setaffinity(0, sizeof set, &set) == 0);
}

// The CPUs that each worker of a run may use.
std::vector<std::vector<int>> cpus_of_workers(WorkerPool& pool, std::uint32_t num_workers) {
  std::vector<std::vector<int>> cpus(num_workers);
  pool.run(num_workers, [&](std::uint32_t worker) { cpus[worker] = own_cpus(); });
  return cpus;
}

// Two nodes of four CPUs whose threads are numbered as Linux does: first threads, then second ones.
const std::vector<std::vector<int>> kTwoNodes = {{0, 1, 4, 5}, {2, 3, 6, 7}};

TEST_CASE("the pool calls every worker once per run, from many threads that take turns") {
  WorkerPool pool;
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int caller = 0; caller < 3; ++caller) {
    callers.emplace_back([&, caller] {
      for (std::uint32_t run = 0; run < 200; ++run) {
        const std::uint32_t workers = 1 + (run + static_cast<std::uint32_t>(caller)) % 5;
        std::vector<int> calls(workers);
        pool.run(workers, [&](std::uint32_t worker) { ++calls[worker]; });
        if (std::any_of(calls.begin(), calls.end(), [](int n) { return n != 1; })) ++wrong;
      }
    });
  }
  for (auto& caller : callers) caller.join();
  CHECK(wrong == 0);
}

TEST_CASE("work that is shared is done without threads that do not come in time") {
  WorkerPool pool;
  int callers = 0;
  for (int run = 0; run < 2000; ++run) {
    std::vector<int> calls(3);
    pool.share(3, [&](std::uint32_t worker) { ++calls[worker]; });
    callers += calls[0];
    if (calls[1] > 1 || calls[2] > 1) callers = -1;
  }
  CHECK(callers == 2000);
  std::atomic<int> begun{0};
  pool.share(3, [&](std::uint32_t worker) {
    if (worker != 0) ++begun;
    while (worker == 0 && begun < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  CHECK(begun == 2);  // those that come in time are waited for
}

TEST_CASE("threads without work use no CPU, between runs and beside a smaller run") {
  WorkerPool pool;
  pool.run(8, [](std::uint32_t) {});
  // Seven threads that spin would use 400 ms and more of each of the CPUs; asleep they use a spin
  // of 20 us each. The bound is far from both.
  const double before = cpu_ms();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  pool.run(2, [](std::uint32_t) { std::this_thread::sleep_for(std::chrono::milliseconds(200)); });
  CHECK(cpu_ms() - before < 100);
}

TEST_CASE("workers stay on the CPUs that the caller of their run may use") {
  const std::vector<int> all = own_cpus();
  for (const Binding binding : {Binding::none, Binding::node, Binding::cpu}) {
    CAPTURE(to_string(binding));
    WorkerPool pool(binding);
    for (const std::vector<int>& allowed : {all, {all.back()}, all}) {
      set_own_cpus(allowed);
      const std::vector<std::vector<int>> cpus = cpus_of_workers(pool, 5);
      CHECK(cpus[0] == allowed);  // the caller's own are left alone
      for (std::size_t worker = 1; worker < cpus.size(); ++worker) {
        CHECK(std::includes(allowed.begin(), allowed.end(), cpus[worker].begin(),
                            cpus[worker].end()));
        if (binding == Binding::none) CHECK(cpus[worker] == allowed);
        if (binding == Binding::cpu) CHECK(cpus[worker].size() == 1);
      }
    }
    set_own_cpus(all);
  }
}

TEST_CASE("workers keep off the caller's CPU where CPUs are few") {
  const std::vector<int> all = own_cpus();
  if (all.size() < 2 || all.size() > 8) SKIP("one CPU, or many");
  WorkerPool pool(Binding::node);
  int checked = 0;
  for (int attempt = 0; attempt < 100 && checked < 3; ++attempt) {
    const int cpu = all[static_cast<std::size_t>(checked % 2)];
    set_own_cpus({cpu});
    set_own_cpus(all);
    int caller = -1;
    std::vector<std::vector<int>> own(3);
    std::atomic<int> seen{0};
    pool.run(3, [&](std::uint32_t worker) {
      if (worker != 0) {
        own[worker] = own_cpus();
        ++seen;
        return;
      }
      caller = sched_getcpu();
      while (seen < 2) std::this_thread::yield();  // or late workers may come here
    });
    if (caller != cpu) continue;  // moved in between
    ++checked;
    for (int worker = 1; worker < 3; ++worker) {
      CHECK(std::count(own[worker].begin(), own[worker].end(), cpu) == 0);
    }
  }
  CHECK(checked == 3);
}

TEST_CASE("a worker that is bound to a CPU makes way for a caller that comes there") {
  const std::vector<int> all = own_cpus();
  if (all.size() < 2) SKIP("one CPU");
  WorkerPool pool(Binding::cpu);
  // The caller moves without a change of its own CPUs, as the system may move it.
  int checked = 0;
  for (int attempt = 0; attempt < 100 && checked < 4; ++attempt) {
    const int cpu = all[static_cast<std::size_t>(checked % 2)];
    set_own_cpus({cpu});
    set_own_cpus(all);
    int caller = -1;
    std::vector<int> own(all.size());
    pool.run(static_cast<std::uint32_t>(all.size()), [&](std::uint32_t worker) {
      worker == 0 ? void(caller = sched_getcpu()) : void(own[worker] = own_cpus().front());
    });
    if (caller != cpu) continue;  // moved again in between
    ++checked;
    CHECK(std::count(own.begin() + 1, own.end(), cpu) == 0);
    std::sort(own.begin() + 1, own.end());
    CHECK(std::adjacent_find(own.begin() + 1, own.end()) == own.end());
  }
  CHECK(checked == 4);
}

TEST_CASE("workers fill the caller's node first, and keep to a node or to a CPU") {
  const std::vector<int> allowed = {0, 1, 2, 3, 6, 7};
  const std::vector<int> order = in_order_of_nodes(allowed, 6, kTwoNodes);
  CHECK(order == std::vector{6, 2, 3, 7, 0, 1});
  const std::vector<std::vector<int>> kNone;
  const auto place = [](int cpu, const std::vector<int>& cpus, Binding binding, const auto& nodes) {
    return cpus_of(place_of(cpu, cpus, binding, nodes));
  };
  CHECK(place(3, order, Binding::none, kTwoNodes) == allowed);
  CHECK(place(3, order, Binding::node, kTwoNodes) == std::vector{2, 3, 7});
  CHECK(place(0, order, Binding::node, kTwoNodes) == std::vector{0, 1});
  CHECK(place(0, order, Binding::cpu, kTwoNodes) == std::vector{0});
  // Where the system does not say what belongs together, all do.
  CHECK(in_order_of_nodes(allowed, 2, {}) == std::vector{2, 0, 1, 3, 6, 7});
  CHECK(place(0, order, Binding::node, kNone) == std::vector{0, 1, 2, 3, 7});
  CHECK(place(5, {5}, Binding::node, kNone) == std::vector{5});
  // Many CPUs are left to the system.
  const std::vector<int> many = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  CHECK(place(3, many, Binding::node, kNone) == many);
}

TEST_CASE("lists of CPUs are read as the system writes them") {
  CHECK(parse_cpu_list("0-3,8,10-11\n") == std::vector{0, 1, 2, 3, 8, 10, 11});
  CHECK(parse_cpu_list("5") == std::vector{5});
  for (const char* none : {"", "\n", "a", "1-", "-1", "1;2", "0-99999999"}) {
    CAPTURE(none);
    CHECK(parse_cpu_list(none).empty());
  }
}

TEST_CASE("an unknown binding is refused while planning, with what is allowed") {
  setenv("MEGACONV_BIND", "socket", 1);
  CHECK_THROWS_WITH(Plan::create(parse_problem("c16h8k16")),
                    "MEGACONV_BIND=socket, must be none, node or cpu");
  for (const Binding binding : {Binding::none, Binding::node, Binding::cpu}) {
    setenv("MEGACONV_BIND", to_string(binding), 1);
    CHECK(resolve_binding() == binding);
  }
  unsetenv("MEGACONV_BIND");
  CHECK(resolve_binding() == Binding::node);
}

}  // namespace

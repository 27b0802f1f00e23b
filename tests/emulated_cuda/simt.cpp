// SPDX-License-Identifier: Apache-2.0
#include "tests/emulated_cuda/simt.hpp"

#include <ucontext.h>

#include <exception>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

EmulatedIndex threadIdx, blockIdx, gridDim{1, 1, 1};

namespace megaconv::test {
namespace {

constexpr std::size_t kStackBytes = 256 << 10;
constexpr int kWarp = 32;
constexpr std::uint64_t kMostPolls = 1'000'000;

// Threads that wait for each other.
struct Barrier {
  int num_threads = 0, num_waiting = 0;
  std::uint64_t generation = 0;
  void release_if_complete() {
    if (num_waiting != num_threads) return;
    num_waiting = 0;
    ++generation;
  }
};

struct Fiber {
  ucontext_t context{};
  std::unique_ptr<std::byte[]> stack = std::make_unique_for_overwrite<std::byte[]>(kStackBytes);
  // What it waits for, until its generation is another one; null: nothing.
  const Barrier* barrier = nullptr;
  std::uint64_t generation = 0;
  bool ended = false;
  bool may_run() const {
    return !ended && (barrier == nullptr || barrier->generation != generation);
  }
};

class Block {
 public:
  void run(int num_threads, ThreadOrder order, const std::function<void()>& body) {
    body_ = &body;
    prepare(num_threads);
    std::vector<int> turns(static_cast<std::size_t>(num_threads));
    std::iota(turns.begin(), turns.end(), 0);
    if (order == ThreadOrder::backward) std::reverse(turns.begin(), turns.end());
    std::mt19937 random(1);
    late_copies_ = order != ThreadOrder::forward;
    num_polls_ = 0;
    for (int num_ended = 0; num_ended < num_threads;) {
      if (order == ThreadOrder::shuffled) std::shuffle(turns.begin(), turns.end(), random);
      bool ran = false;
      for (const int thread : turns) {
        Fiber& fiber = fibers_[static_cast<std::size_t>(thread)];
        if (!fiber.may_run()) continue;
        ran = true;
        fiber.barrier = nullptr;
        current_ = thread;
        threadIdx.x = static_cast<unsigned>(thread);
        swapcontext(&scheduler_, &fiber.context);
        num_ended += fiber.ended ? 1 : 0;
        if (error_ != nullptr) std::rethrow_exception(std::exchange(error_, nullptr));
      }
      if (!ran || num_polls_ > kMostPolls) {
        throw std::runtime_error("emulated block: threads wait for others that never come");
      }
    }
  }

  void wait_for(Barrier& barrier) {
    Fiber& fiber = fibers_[static_cast<std::size_t>(current_)];
    fiber.generation = barrier.generation;
    fiber.barrier = &barrier;
    ++barrier.num_waiting;
    barrier.release_if_complete();
    num_polls_ = 0;
    swapcontext(&fiber.context, &scheduler_);
  }
  void poll_later() {
    ++num_polls_;
    swapcontext(&fibers_[static_cast<std::size_t>(current_)].context, &scheduler_);
  }
  bool late_copies() const { return late_copies_; }
  Barrier& of_block() { return block_; }
  Barrier& of_warp() { return warps_[static_cast<std::size_t>(current_ / kWarp)].barrier; }
  auto& mailbox() { return warps_[static_cast<std::size_t>(current_ / kWarp)].mailbox; }

  static Block& current() {
    static Block block;  // stacks are kept from one run to the next
    return block;
  }

 private:
  struct Warp {
    Barrier barrier;
    std::array<std::array<std::byte, 16>, kWarp> mailbox;
  };

  void prepare(int num_threads) {
    while (fibers_.size() < static_cast<std::size_t>(num_threads)) fibers_.emplace_back();
    block_ = Barrier{num_threads};
    warps_.assign(static_cast<std::size_t>((num_threads + kWarp - 1) / kWarp), Warp());
    for (int thread = 0; thread < num_threads; ++thread) {
      ++warps_[static_cast<std::size_t>(thread / kWarp)].barrier.num_threads;
      Fiber& fiber = fibers_[static_cast<std::size_t>(thread)];
      fiber.barrier = nullptr;
      fiber.ended = false;
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = fiber.stack.get();
      fiber.context.uc_stack.ss_size = kStackBytes;
      fiber.context.uc_link = &scheduler_;
      makecontext(&fiber.context, &Block::begin, 0);
    }
  }
  static void begin() noexcept {
    Block& block = current();
    try {
      (*block.body_)();
    } catch (...) {
      block.error_ = std::current_exception();
    }
    block.fibers_[static_cast<std::size_t>(block.current_)].ended = true;
    for (Barrier* barrier : {&block.block_, &block.of_warp()}) {
      --barrier->num_threads;
      barrier->release_if_complete();
    }
  }

  const std::function<void()>* body_ = nullptr;
  std::vector<Fiber> fibers_;
  std::vector<Warp> warps_;
  Barrier block_;
  ucontext_t scheduler_{};
  int current_ = 0;
  bool late_copies_ = false;
  std::uint64_t num_polls_ = 0;  // since a thread last reached a barrier
  std::exception_ptr error_;
};

}  // namespace

void run_block(int num_threads, ThreadOrder order, const std::function<void()>& body) {
  Block::current().run(num_threads, order, body);
}
void wait_for_block() { Block::current().wait_for(Block::current().of_block()); }
void wait_for_warp() { Block::current().wait_for(Block::current().of_warp()); }
void poll_later() { Block::current().poll_later(); }
bool copies_are_late() { return Block::current().late_copies(); }
std::array<std::array<std::byte, 16>, 32>& warp_mailbox() { return Block::current().mailbox(); }

}  // namespace megaconv::test

bool __syncthreads_or(bool predicate) {
  static bool any;
  __syncthreads();
  if (threadIdx.x == 0) any = false;
  __syncthreads();
  any = any || predicate;
  __syncthreads();
  return any;
}

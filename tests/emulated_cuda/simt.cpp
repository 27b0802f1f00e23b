// SPDX-License-Identifier: Apache-2.0
#include "tests/emulated_cuda/simt.hpp"

#include <setjmp.h>
#include <ucontext.h>

#include <exception>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

EmulatedIndex threadIdx, blockIdx, gridDim{1, 1, 1};

namespace megaconv::test {
namespace {

constexpr std::size_t kStackBytes = 256 << 10;
constexpr int kWarp = 32, kWarpgroup = 128;
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

// A point where execution stopped. swapcontext would ask the operating system for the signal mask
// at every switch, which takes most of the time; what it does else, _setjmp does too.
struct Context {
  ucontext_t first{};
  jmp_buf later{};
  bool began = false;
};
void switch_context(Context& from, Context& to) {
#ifdef __SANITIZE_ADDRESS__  // knows swapcontext, but no jumps between stacks
  swapcontext(&from.first, &to.first);
#else
  from.began = true;
  if (_setjmp(from.later) != 0) return;
  if (to.began) _longjmp(to.later, 1);
  setcontext(&to.first);
#endif
}

struct Fiber {
  Context context;
  std::unique_ptr<std::byte[]> stack = std::make_unique_for_overwrite<std::byte[]>(kStackBytes);
  // What it waits for, until its generation is another one; null: nothing.
  const Barrier* barrier = nullptr;
  std::uint64_t generation = 0;
  bool ended = false;
  bool at_cluster = false;  // has arrived there, and not yet waited
  std::uint64_t cluster_generation = 0;
  unsigned num_letters = 0;
  bool may_run() const {
    return !ended && (barrier == nullptr || barrier->generation != generation);
  }
};

class Block {
 public:
  void run(int num_blocks, int of_block, ThreadOrder order, const std::function<void()>& body) {
    body_ = &body;
    block_threads_ = of_block;
    const int num_threads = num_blocks * of_block;
    prepare(num_threads);
    std::vector<int> turns(static_cast<std::size_t>(num_threads));
    std::iota(turns.begin(), turns.end(), 0);
    if (order == ThreadOrder::backward) std::reverse(turns.begin(), turns.end());
    std::mt19937 random(1);
    late_copies_ = order != ThreadOrder::forward;
    num_polls_ = num_ended_ = 0;
    while (num_ended_ < turns.size()) {
      bool ran = false;
      if (order == ThreadOrder::shuffled) {
        std::shuffle(turns.begin(), turns.end(), random);
        ran = give_turns(turns).ran;
      } else {
        for (std::size_t first = 0; first < turns.size(); first += kWarp) {
          const std::span<const int> warp =
              std::span(turns).subspan(first, std::min<std::size_t>(kWarp, turns.size() - first));
          Turns given;
          do {
            given = give_turns(warp);
            ran |= given.ran;
          } while (given.reached_barrier);
        }
      }
      if (!ran || num_polls_ > kMostPolls) throw std::runtime_error(stuck(num_threads));
    }
  }

  void wait_for(Barrier& barrier) {
    Fiber& fiber = fibers_[static_cast<std::size_t>(current_)];
    fiber.generation = barrier.generation;
    fiber.barrier = &barrier;
    ++barrier.num_waiting;
    barrier.release_if_complete();
    num_polls_ = 0;
    switch_context(fiber.context, scheduler_);
  }
  void poll_later() {
    ++num_polls_;
    switch_context(fibers_[static_cast<std::size_t>(current_)].context, scheduler_);
  }
  bool late_copies() const { return late_copies_; }
  Barrier& of_block() { return blocks_[static_cast<std::size_t>(current_ / block_threads_)]; }
  // A barrier whose arrival is not its wait.
  void arrive_at_cluster() {
    Fiber& fiber = fibers_[static_cast<std::size_t>(current_)];
    if (fiber.at_cluster) throw std::runtime_error("barrier of a cluster: arrived twice");
    fiber.at_cluster = true;
    fiber.cluster_generation = cluster_.generation;
    ++cluster_.num_waiting;
    cluster_.release_if_complete();
    num_polls_ = 0;
  }
  void wait_for_cluster() {
    Fiber& fiber = fibers_[static_cast<std::size_t>(current_)];
    if (!fiber.at_cluster) throw std::runtime_error("barrier of a cluster: waits without arrival");
    fiber.at_cluster = false;
    fiber.generation = fiber.cluster_generation;
    fiber.barrier = &cluster_;
    switch_context(fiber.context, scheduler_);
  }
  std::size_t thread() const { return static_cast<std::size_t>(current_); }
  Barrier& of_warpgroup() { return warpgroups_[static_cast<std::size_t>(current_ / kWarpgroup)]; }
  void note_progress() { num_polls_ = 0; }
  Barrier& of_warp() { return warps_[static_cast<std::size_t>(current_ / kWarp)].barrier; }
  std::byte* mailbox() {
    const unsigned next = fibers_[static_cast<std::size_t>(current_)].num_letters++ % 2;
    return warps_[static_cast<std::size_t>(current_ / kWarp)].mailboxes[next];
  }

  static Block& current() {
    static Block block;  // stacks are kept from one run to the next
    return block;
  }

 private:
  struct Turns {
    bool ran = false, reached_barrier = false;  // at least one thread
  };
  // Every one of these threads that may run does so until it waits.
  Turns give_turns(std::span<const int> threads) {
    Turns turns;
    for (const int thread : threads) {
      Fiber& fiber = fibers_[static_cast<std::size_t>(thread)];
      if (!fiber.may_run()) continue;
      fiber.barrier = nullptr;
      current_ = thread;
      threadIdx.x = static_cast<unsigned>(thread % block_threads_);
      blockIdx.x = first_block_ + static_cast<unsigned>(thread / block_threads_);
      switch_context(scheduler_, fiber.context);
      num_ended_ += fiber.ended ? 1 : 0;
      if (error_ != nullptr) std::rethrow_exception(std::exchange(error_, nullptr));
      turns.ran = true;
      turns.reached_barrier |= fiber.barrier != nullptr;
    }
    return turns;
  }

  struct Warp {
    Barrier barrier;
    alignas(16) std::byte mailboxes[2][kWarp * kLetterBytes];
  };

  // Where the threads are that wait for others that never come.
  std::string stuck(int num_threads) const {
    int at_cluster = 0, at_block = 0, at_warpgroup = 0, at_warp = 0, polling = 0;
    for (int thread = 0; thread < num_threads; ++thread) {
      const Fiber& fiber = fibers_[static_cast<std::size_t>(thread)];
      const auto* const barrier = reinterpret_cast<const std::byte*>(fiber.barrier);
      const auto among = [&](const auto& all) {
        const auto* const begin = reinterpret_cast<const std::byte*>(all.data());
        return barrier >= begin && barrier < begin + all.size() * sizeof(all[0]);
      };
      if (fiber.ended) continue;
      ++(barrier == nullptr           ? polling
         : fiber.barrier == &cluster_ ? at_cluster
         : among(blocks_)             ? at_block
         : among(warpgroups_)         ? at_warpgroup
                                      : at_warp);
    }
    return "emulated block: threads wait for others that never come: " +
           std::to_string(at_cluster) + " at a barrier of the cluster, " +
           std::to_string(at_block) + " at a barrier of the block, " +
           std::to_string(at_warpgroup) + " of a warpgroup, " + std::to_string(at_warp) +
           " of a warp, " + std::to_string(polling) + " polling";
  }

  void prepare(int num_threads) {
    while (fibers_.size() < static_cast<std::size_t>(num_threads)) fibers_.emplace_back();
    blocks_.assign(static_cast<std::size_t>(num_threads / block_threads_), Barrier{block_threads_});
    cluster_ = Barrier{num_threads};
    first_block_ = blockIdx.x;
    warps_.assign(static_cast<std::size_t>((num_threads + kWarp - 1) / kWarp), Warp());
    warpgroups_.assign(static_cast<std::size_t>((num_threads + kWarpgroup - 1) / kWarpgroup),
                       Barrier());
    for (int thread = 0; thread < num_threads; ++thread) {
      ++warpgroups_[static_cast<std::size_t>(thread / kWarpgroup)].num_threads;
      ++warps_[static_cast<std::size_t>(thread / kWarp)].barrier.num_threads;
      Fiber& fiber = fibers_[static_cast<std::size_t>(thread)];
      fiber.barrier = nullptr;
      fiber.ended = fiber.at_cluster = false;
      fiber.num_letters = 0;
      fiber.context.began = false;
      ucontext_t& first = fiber.context.first;
      getcontext(&first);
      first.uc_stack.ss_sp = fiber.stack.get();
      first.uc_stack.ss_size = kStackBytes;
      makecontext(&first, &Block::begin, 0);
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
    for (Barrier* barrier :
         {&block.cluster_, &block.of_block(), &block.of_warpgroup(), &block.of_warp()}) {
      --barrier->num_threads;
      barrier->release_if_complete();
    }
    switch_context(block.fibers_[static_cast<std::size_t>(block.current_)].context,
                   block.scheduler_);
  }

  const std::function<void()>* body_ = nullptr;
  std::vector<Fiber> fibers_;
  std::vector<Warp> warps_;
  std::vector<Barrier> warpgroups_;
  std::vector<Barrier> blocks_;
  Barrier cluster_;
  int block_threads_ = 0;
  unsigned first_block_ = 0;
  Context scheduler_;
  int current_ = 0;
  std::size_t num_ended_ = 0;
  bool late_copies_ = false;
  std::uint64_t num_polls_ = 0;  // since a thread last reached a barrier
  std::exception_ptr error_;
};

std::byte* shared_base = nullptr;

}  // namespace

void set_shared_memory(std::byte* base) { shared_base = base; }
std::byte* shared_memory(std::uint64_t address) { return shared_base + address; }
std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(static_cast<const std::byte*>(pointer) - shared_base);
}

void run_block(int num_threads, ThreadOrder order, const std::function<void()>& body) {
  Block::current().run(1, num_threads, order, body);
}
void run_cluster(int num_blocks, int num_threads, ThreadOrder order,
                 const std::function<void()>& body) {
  const EmulatedIndex first = std::exchange(blockIdx, {});
  Block::current().run(num_blocks, num_threads, order, body);
  blockIdx = first;
}
void arrive_at_cluster() { Block::current().arrive_at_cluster(); }
void wait_for_cluster() { Block::current().wait_for_cluster(); }
std::size_t thread_of_cluster() { return Block::current().thread(); }
void wait_for_block() { Block::current().wait_for(Block::current().of_block()); }
void wait_for_warpgroup() { Block::current().wait_for(Block::current().of_warpgroup()); }
void note_progress() { Block::current().note_progress(); }
void wait_for_warp() { Block::current().wait_for(Block::current().of_warp()); }
void poll_later() { Block::current().poll_later(); }
bool copies_are_late() { return Block::current().late_copies(); }
std::byte* warp_mailbox() { return Block::current().mailbox(); }

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

// SPDX-License-Identifier: Apache-2.0
// A thread block on one CPU thread: what CUDA C++ has that C++ has not, for task bodies that are
// compiled by the host compiler. Every thread of the block is a fiber, which runs until it waits
// for others. Memory orders and caches are not emulated. __CUDA_ARCH__ says which code it is; from
// 800 on only what needs no instruction that neither this header nor those in include/ stand in
// for.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>

#define __device__
#define __host__
#define __global__
#define __forceinline__ inline
#define __shared__ static
#define __noinline__

namespace megaconv::test {

/// The dynamic shared memory of the blocks to come, at most 256 KiB a block; addresses in it.
void set_shared_memory(std::byte* base);
std::byte* shared_memory(std::uint64_t address);
std::uint32_t shared_address(const void* pointer);

/// In which order the threads of a block run between two barriers: warps one after the other, each
/// as far ahead as it can, or all threads in turn. A result that depends on it is a race.
/// Asynchronous copies are there at once in forward order, else when they are waited for.
enum class ThreadOrder : std::uint8_t { forward, backward, shuffled };

/// Runs body() as every thread of a block. Throws what leaves body(), and std::runtime_error when
/// threads wait for others that never come.
void run_block(int num_threads, ThreadOrder order, const std::function<void()>& body);

/// The same of a cluster: blocks of so many threads side by side, which blockIdx tells apart. They
/// have kClusterSharedBytes of dynamic shared memory each, one behind the other.
inline constexpr std::size_t kClusterSharedBytes = 120 << 10;
void run_cluster(int num_blocks, int num_threads, ThreadOrder order,
                 const std::function<void()>& body);
/// By turns, for all threads of the cluster.
void arrive_at_cluster();
void wait_for_cluster();
/// The calling thread, among all threads of the cluster.
std::size_t thread_of_cluster();

/// For emulated instructions: waits for the threads of the block, or of the calling one's group of
/// 128, or of its warp. Those that have returned are not waited for.
void wait_for_block();
void wait_for_warpgroup();
void wait_for_warp();
/// 32 bytes of every thread of the warp, for the others to read when it has waited for them.
/// Another place at every other call, so that nobody overwrites what others are still reading.
inline constexpr std::size_t kLetterBytes = 32;
std::byte* warp_mailbox();

/// Whether asynchronous copies are made when they are waited for.
bool copies_are_late();
/// Called when what a thread waits for has not come: lets others run.
void poll_later();
/// Called when something has come that threads may be waiting for.
void note_progress();

/// What the lanes of the warp hand in, until the next call but one; called by all.
template <class Value>
std::array<Value, 32>& exchange(const Value& own);

}  // namespace megaconv::test

// In the global namespace, as CUDA has them.
struct EmulatedIndex {
  unsigned x = 0, y = 0, z = 0;
};
extern EmulatedIndex threadIdx, blockIdx, gridDim;

template <class Value>
std::array<Value, 32>& megaconv::test::exchange(const Value& own) {
  static_assert(sizeof(Value) <= kLetterBytes && std::is_trivially_copyable_v<Value>);
  auto& letters = *reinterpret_cast<std::array<Value, 32>*>(warp_mailbox());
  letters[threadIdx.x % 32] = own;
  wait_for_warp();
  return letters;
}

using std::fma, std::fmaf, std::fmaxf, std::fminf, std::isinf, std::max, std::min;

struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

template <class Word>
void __stwb(Word* to, Word word) {
  *to = word;
}

inline float __expf(float x) { return std::exp(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline void __nanosleep(unsigned) { megaconv::test::poll_later(); }
inline void __syncthreads() { megaconv::test::wait_for_block(); }
inline void __syncwarp() { megaconv::test::wait_for_warp(); }
template <class Value>
Value __shfl_sync(unsigned, Value value, int lane) {
  return megaconv::test::exchange(value)[static_cast<std::size_t>(lane)];
}
template <class Value>
Value __shfl_xor_sync(unsigned, Value value, int other) {
  return megaconv::test::exchange(value)[threadIdx.x % 32 ^ static_cast<unsigned>(other)];
}
inline unsigned __reduce_max_sync(unsigned, unsigned value) {
  const auto& all = megaconv::test::exchange(value);
  return *std::max_element(all.begin(), all.end());
}
inline bool __any_sync(unsigned mask, bool predicate) {
  return __reduce_max_sync(mask, predicate) != 0;
}
bool __syncthreads_or(bool predicate);
inline void atomicMax(unsigned* most, unsigned value) { *most = std::max(*most, value); }
inline float __uint_as_float(unsigned bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline unsigned __float_as_uint(float value) {
  unsigned bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
template <class Value>
Value __ldg(const Value* from) {
  return *from;
}
template <class Value>
Value __ldcg(const Value* from) {
  return *from;
}

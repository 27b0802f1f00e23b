// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan_word.hpp"

#include <atomic>
#include <random>

namespace megaconv {

std::uint64_t new_plan_word() {
  static const std::uint64_t key = [] {
    std::random_device device;
    return static_cast<std::uint64_t>(device() | 1) << 32;  // an upper half of zeros is common
  }();
  static std::atomic<std::uint32_t> next{1};
  return key | static_cast<std::uint64_t>(next.fetch_add(1, std::memory_order_relaxed) << 1);
}

}  // namespace megaconv

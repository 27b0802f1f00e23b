// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan_word.hpp"

#include <atomic>
#include <random>

namespace megaconv {

std::uint64_t new_plan_word() {
  static const std::uint32_t key = [] {
    std::random_device device;
    return std::uint32_t{device()} | 1;  // a word of zeros is common
  }();
  static std::atomic<std::uint32_t> next{1};
  return plan_word(key, next.fetch_add(1, std::memory_order_relaxed) << 1);
}

}  // namespace megaconv

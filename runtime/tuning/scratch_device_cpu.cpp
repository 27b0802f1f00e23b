// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "megaconv/error.hpp"
#include "runtime/executor.hpp"
#include "runtime/tuning/scratch_device.hpp"

namespace megaconv {
namespace {

class CpuScratchDevice final : public ScratchDevice {
 public:
  void* allocate(std::size_t bytes) override {
    void* const memory = std::aligned_alloc(Plan::kAlignment, aligned(bytes));
    if (memory != nullptr) return memory;
    throw Error(Status::out_of_memory,
                "measuring in place needs " + std::to_string(bytes) + " bytes more than there are");
  }
  void release(void* memory) noexcept override { std::free(memory); }
  void upload(void* to, const void* host, std::size_t bytes) override {
    std::memcpy(to, host, bytes);
  }
  void download(void* host, const void* from, std::size_t bytes) override {
    std::memcpy(host, from, bytes);
  }
  double time_ms(const std::function<void()>& work) override {
    const auto begin = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
        .count();
  }
};

}  // namespace

std::unique_ptr<ScratchDevice> make_cpu_scratch_device() {
  return std::make_unique<CpuScratchDevice>();
}

}  // namespace megaconv

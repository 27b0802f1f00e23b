// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "megaconv/error.hpp"
#include "runtime/machine.hpp"
#include "tasks/cpu/kernels.hpp"
#include "tools/report/machine_info.hpp"
#include "tools/report/terminal.hpp"
#include "tools/run/device.hpp"
#include "tools/run/timing.hpp"

namespace megaconv::cli {
namespace {

// In small pages it is a matter of luck which cache sets a workspace shares out among its parts:
// one and the same layer then takes 1.6 ms in one process and 3.5 in the next (Zen 4, n4c64h56k64).
constexpr std::size_t kLargePage = std::size_t{2} << 20;
constexpr std::size_t kLastLevelCacheGuess = std::size_t{64} << 20;

class CpuDevice final : public Device {
 public:
  Backend backend() const override { return Backend::cpu; }
  std::string name() const override { return cpu_name(); }
  std::string isa() const override { return cpu::kernels_for().isa; }
  double clock_mhz() const override {
    std::ifstream cpuinfo("/proc/cpuinfo");
    std::string line;
    double sum = 0;
    int count = 0;
    while (std::getline(cpuinfo, line)) {
      const std::size_t colon = line.find(": ");
      if (!line.starts_with("cpu MHz") || colon == std::string::npos) continue;
      sum += std::stod(line.substr(colon + 2));
      ++count;
    }
    return count == 0 ? 0 : sum / count;
  }

  void* allocate(std::size_t bytes) override {
    const std::size_t alignment = bytes >= kLargePage ? kLargePage : Plan::kAlignment;
    const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    void* const memory = std::aligned_alloc(alignment, rounded);
    if (memory == nullptr) {
      throw Error(Status::out_of_memory, "cannot allocate " + format_bytes(bytes));
    }
    if (alignment == kLargePage) madvise(memory, rounded, MADV_HUGEPAGE);  // only a wish
    return memory;
  }
  void release(void* memory) noexcept override { std::free(memory); }

  /// Bytes that can be had without swapping; infinite when the system does not say.
  double available_bytes() const override {
    std::ifstream meminfo("/proc/meminfo");
    std::string key;
    double kibibytes = 0;
    while (meminfo >> key >> kibibytes) {
      if (key == "MemAvailable:") return kibibytes * 1024;
      meminfo.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
    }
    return std::numeric_limits<double>::infinity();
  }

  void upload(void* to, const void* host, std::size_t bytes) override {
    std::memcpy(to, host, bytes);
  }
  void download(void* host, const void* from, std::size_t bytes) override {
    std::memcpy(host, from, bytes);
  }
  void fill_bytes(void* memory, std::byte value, std::size_t bytes) override {
    std::memset(memory, static_cast<int>(value), bytes);
  }
  bool all_bytes_are(const void* memory, std::byte value, std::size_t bytes) override {
    const auto* const begin = static_cast<const std::byte*>(memory);
    return std::all_of(begin, begin + bytes, [=](std::byte b) { return b == value; });
  }
  bool same_bytes(const void* a, const void* b, std::size_t bytes) override {
    return std::memcmp(a, b, bytes) == 0;
  }

  void fill(DataType dtype, void* values, std::int64_t count, const Filling& filling,
            std::uint64_t seed) override {
    megaconv::fill(dtype, values, count, filling, seed);
  }
  void reference(const ConvProblem& problem, const Tensors& tensors, double* y,
                 double* magnitude) override {
    reference_convolution(problem, tensors, y, magnitude);
  }
  ErrorReport compare(const Tiling& tiling, const void* y, const double* reference,
                      const double* magnitude) override {
    return megaconv::compare(tiling, y, reference, magnitude);
  }
  Mismatch mismatch(DataType dtype, const void* y, const double* reference,
                    std::int64_t count) override {
    return megaconv::mismatch(dtype, y, reference, count);
  }

  std::function<double()> clock(Work work, Caches caches) override {
    return [this, work = std::move(work), caches] {
      if (caches == Caches::cold) empty_caches();
      return wall_ms([&] {
        work.enqueue(nullptr);
        work.wait(nullptr);
      });
    };
  }

 private:
  // Writes twice what the last-level cache holds.
  void empty_caches() {
    if (sweep_.empty()) {
      const long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
      sweep_.resize(2 * (bytes > 0 ? static_cast<std::size_t>(bytes) : kLastLevelCacheGuess));
    }
    ++sweep_value_;
    std::fill(sweep_.begin(), sweep_.end(), sweep_value_);
  }
  std::vector<unsigned char> sweep_;
  unsigned char sweep_value_ = 0;
};

}  // namespace

Device& cpu_device() {
  static CpuDevice device;
  return device;
}

Device& device_of(Backend backend) {
  if (backend == Backend::sim) {
    throw Error(Status::unsupported, "backend sim cannot compute, must be cpu or cuda");
  }
  return backend == Backend::cuda ? cuda_device() : cpu_device();
}

void require_memory(const Device& device, const std::string& what, double bytes) {
  const double available = device.available_bytes();
  if (bytes <= available) return;
  throw Error(Status::out_of_memory,
              what + " needs " + format_bytes(static_cast<std::uint64_t>(bytes)) + ", " +
                  format_bytes(static_cast<std::uint64_t>(available)) + " are available");
}

}  // namespace megaconv::cli

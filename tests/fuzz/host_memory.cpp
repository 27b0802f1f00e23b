// SPDX-License-Identifier: Apache-2.0
// The memory of the host as a Device, without what computes on it: readers need no bodies of tasks.
#include <new>

#include "tests/fuzz/fuzz.hpp"
#include "tools/run/device.hpp"

namespace megaconv::cli {
namespace {

class HostMemory : public Device {
 public:
  Backend backend() const override { return Backend::cpu; }
  std::string name() const override { return "host memory"; }
  std::string isa() const override { return "none"; }
  double clock_mhz() const override { return 0; }
  void* allocate(std::size_t bytes) override { return ::operator new(bytes); }
  void release(void* memory) noexcept override { ::operator delete(memory); }
  double available_bytes() const override { return 1 << 30; }
  void upload(void*, const void*, std::size_t) override { std::abort(); }
  void download(void*, const void*, std::size_t) override { std::abort(); }
  void fill_bytes(void*, std::byte, std::size_t) override { std::abort(); }
  bool all_bytes_are(const void*, std::byte, std::size_t) override { std::abort(); }
  bool same_bytes(const void*, const void*, std::size_t) override { std::abort(); }
  void fill(DataType, void*, std::int64_t, const Filling&, std::uint64_t) override { std::abort(); }
  void reference(const ConvProblem&, const Tensors&, double*, double*) override { std::abort(); }
  ErrorReport compare(const Tiling&, const void*, const double*, const double*) override {
    std::abort();
  }
  Mismatch mismatch(DataType, const void*, const double*, std::int64_t) override { std::abort(); }
  std::function<double()> clock(Work, Caches) override { std::abort(); }
};

}  // namespace

Device& cpu_device() {
  static HostMemory device;
  return device;
}

void require_memory(const Device& device, const std::string& what, double bytes) {
  if (bytes <= device.available_bytes()) return;
  throw Error(Status::out_of_memory, what + " needs more than there is");
}

}  // namespace megaconv::cli

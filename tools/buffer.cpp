// SPDX-License-Identifier: Apache-2.0
#include "tools/buffer.hpp"

#include <sys/mman.h>

#include <fstream>
#include <limits>
#include <string>

#include "megaconv/error.hpp"
#include "megaconv/plan.hpp"
#include "tools/terminal.hpp"

namespace megaconv::cli {
namespace {

// In small pages it is a matter of luck which cache sets a workspace shares out among its parts:
// one and the same layer then takes 1.6 ms in one process and 3.5 in the next (Zen 4, n4c64h56k64).
constexpr std::size_t kLargePage = std::size_t{2} << 20;

/// Bytes that can be had without swapping; infinite when the system does not say.
double available_memory() {
  std::ifstream meminfo("/proc/meminfo");
  std::string key;
  double kibibytes = 0;
  while (meminfo >> key >> kibibytes) {
    if (key == "MemAvailable:") return kibibytes * 1024;
    meminfo.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::numeric_limits<double>::infinity();
}

}  // namespace

Buffer::Buffer(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  const std::size_t alignment = bytes >= kLargePage ? kLargePage : Plan::kAlignment;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  data_.reset(static_cast<std::byte*>(std::aligned_alloc(alignment, rounded)));
  if (data_ == nullptr) {
    throw Error(Status::out_of_memory, "cannot allocate " + format_bytes(bytes));
  }
  if (alignment == kLargePage) madvise(data_.get(), rounded, MADV_HUGEPAGE);  // only a wish
}

Buffer float_buffer(std::int64_t size) {
  return Buffer(static_cast<std::size_t>(size) * sizeof(float));
}

void require_memory(const char* what, double bytes) {
  const double available = available_memory();
  if (bytes <= available) return;
  throw Error(Status::out_of_memory,
              std::string(what) + " needs " + format_bytes(static_cast<std::uint64_t>(bytes)) +
                  ", " + format_bytes(static_cast<std::uint64_t>(available)) + " are available");
}

}  // namespace megaconv::cli

// SPDX-License-Identifier: Apache-2.0
// Which instructions plans use on which device.
#include "runtime/cuda/isa.hpp"

#include <cstdlib>
#include <string>

#include "megaconv/error.hpp"
#include "tests/catch.hpp"

using namespace megaconv;
using cuda::Isa;

namespace {

// MEGACONV_CUDA_ISA as long as it lives.
class Asked {
 public:
  explicit Asked(const char* isa) { setenv("MEGACONV_CUDA_ISA", isa, 1); }
  ~Asked() { unsetenv("MEGACONV_CUDA_ISA"); }
};

}  // namespace

TEST_CASE("CUDA's instruction set is wgmma on Hopper, fma elsewhere, or the one asked for") {
  unsetenv("MEGACONV_CUDA_ISA");
  CHECK(cuda::choose_isa(90) == Isa::wgmma);
  for (const int capability : {75, 80, 89, 100, 120}) {
    CHECK(cuda::choose_isa(capability) == Isa::fma);
  }
  const Asked mma("mma");
  for (const int capability : {80, 89, 90, 120}) CHECK(cuda::choose_isa(capability) == Isa::mma);
}

TEST_CASE("CUDA: an instruction set that the device does not have is an error that names those") {
  const auto message = [](const char* asked, int capability) -> std::string {
    const Asked environment(asked);
    try {
      cuda::choose_isa(capability);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  CHECK(message("mma", 75).find("MEGACONV_CUDA_ISA=mma: must be one of this device's, fma") !=
        std::string::npos);
  CHECK(message("wgmma", 100).find("fma, mma") != std::string::npos);
  CHECK(message("avx2", 90).find("fma, mma, wgmma") != std::string::npos);
}

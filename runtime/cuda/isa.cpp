// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/isa.hpp"

#include <cstdlib>
#include <string>

#include "mapping/enum_names.hpp"
#include "mapping/text.hpp"
#include "megaconv/error.hpp"

namespace megaconv::cuda {

constexpr EnumNames<Isa, 3> kNames{{Isa::fma, "fma"}, {Isa::mma, "mma"}, {Isa::wgmma, "wgmma"}};

const char* to_string(Isa isa) noexcept { return name_of(kNames, isa); }

std::vector<Isa> available_isas(int capability) {
  std::vector<Isa> isas{Isa::fma};
  if (capability >= 80) isas.push_back(Isa::mma);
  if (capability == 90) isas.push_back(Isa::wgmma);
  return isas;
}

Isa default_isa(int capability) noexcept { return capability == 90 ? Isa::wgmma : Isa::fma; }

Isa choose_isa(int capability) {
  const char* const asked = std::getenv("MEGACONV_CUDA_ISA");
  if (asked == nullptr) return default_isa(capability);
  std::string names;
  for (const Isa isa : available_isas(capability)) {
    if (std::string(asked) == to_string(isa)) return isa;
    names += (names.empty() ? "" : ", ") + std::string(to_string(isa));
  }
  throw Error(Status::unsupported,
              "MEGACONV_CUDA_ISA=" + excerpt(asked) + ": must be one of this device's, " + names);
}

}  // namespace megaconv::cuda

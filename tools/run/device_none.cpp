// SPDX-License-Identifier: Apache-2.0
#include "megaconv/error.hpp"
#include "tools/run/device.hpp"

namespace megaconv::cli {

Device& cuda_device() {
  throw Error(Status::unsupported,
              "backend cuda is not part of this build (no CUDA compiler was found), must be cpu");
}

std::string cuda_availability() {
  return "no: not part of this build (no CUDA compiler was found)";
}

}  // namespace megaconv::cli

// SPDX-License-Identifier: Apache-2.0
// Stands for the CUDA executor in a build without a CUDA compiler.
#include "megaconv/error.hpp"
#include "runtime/executor.hpp"
#include "runtime/tuning/scratch_device.hpp"

namespace megaconv {
namespace {
[[noreturn]] void refuse() {
  throw Error(Status::unsupported,
              "backend cuda is not part of this build (no CUDA compiler was found), must be cpu");
}
}  // namespace

std::unique_ptr<Executor> make_cuda_executor(const Lowering&, const PlanOptions&) { refuse(); }
Target cuda_target(const PlanOptions&) { refuse(); }

DeviceIdentity cuda_identity() { refuse(); }
std::unique_ptr<ScratchDevice> make_cuda_scratch_device() { refuse(); }

}  // namespace megaconv

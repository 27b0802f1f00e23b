// SPDX-License-Identifier: Apache-2.0
// Hashes of what CUDA's tasks compute without a GPU, as code for one compute capability.
#include "tests/checksums/command.hpp"
#include "tests/checksums/data.hpp"
#include "tests/checksums/emulated_compute.hpp"

namespace {

using namespace megaconv;
using namespace megaconv::checksums;

std::uint64_t run(const ConvProblem& problem, const Case& item) {
  const std::vector<float> y =
      compute_emulated(problem, plan_options(item, Backend::cuda), Data(problem, item));
  return hash(y.data(), y.size() * sizeof(float));
}

}  // namespace

int main(int argc, char** argv) {
  const auto draw = [](std::uint64_t seed, std::uint64_t index) {
    return emulated_case(emulated_code(), seed, index);
  };
  // Tensor cores of a warp take longest to emulate.
  const std::uint64_t count = emulated_code() == EmulatedCode::sm80 ? 150 : 300;
  return run_program({.name = "checksums_emulated",
                      .count = count,
                      .isa = std::string("emulated/") + to_string(emulated_code()),
                      .draw = draw,
                      .run = run},
                     argc, argv);
}

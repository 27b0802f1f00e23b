// SPDX-License-Identifier: Apache-2.0
// Hashes of what plans on the CPU compute. MEGACONV_ISA says by which instruction set.
//
// Only the public API is used, and of that only what is meant to stay: problem strings,
// configuration strings, plans.
#include <cstdlib>
#include <cstring>

#include "megaconv/plan.hpp"
#include "tests/checksums/command.hpp"
#include "tests/checksums/data.hpp"

namespace {

using namespace megaconv;
using namespace megaconv::checksums;

std::uint64_t run(const ConvProblem& problem, const Case& item) {
  const Plan plan = Plan::create(problem, plan_options(item, Backend::cpu));
  Data data(problem, item);
  constexpr std::byte kPoison{0xff};  // floats: NaN
  Bytes workspace(plan.workspace_bytes(), kPoison);
  Bytes prepared(plan.prepared_filter_bytes(), kPoison);
  Bytes y(static_cast<std::size_t>(problem.y_size()) * size_of(problem.dtype));
  if (item.residual_in_y) std::memcpy(y.get(), data.residual.get(), y.size());
  if (item.prepared) plan.prepare_filters(data.w.get(), prepared.get());
  plan.execute({.x = data.x.get(),
                .w = item.prepared ? nullptr : data.w.get(),
                .scale = data.scale.get(),
                .bias = data.bias.get(),
                .residual = item.residual_in_y ? y.get() : data.residual.get(),
                .y = y.get(),
                .prepared_filters = prepared.get()},
               workspace.get(), workspace.size());
  return hash(y.get(), y.size());
}

}  // namespace

int main(int argc, char** argv) {
  const char* const isa = std::getenv("MEGACONV_ISA");
  return run_program({.name = "checksums",
                      .count = 3000,
                      .isa = std::string("cpu/") + (isa == nullptr ? "best" : isa),
                      .draw = cpu_case,
                      .run = run},
                     argc, argv);
}

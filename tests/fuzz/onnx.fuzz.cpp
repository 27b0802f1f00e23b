// SPDX-License-Identifier: Apache-2.0
// An ONNX model that is read is a network: it reads back from a file of ours, and what the planner
// makes of a small one is proven.
#include "megaconv/onnx.hpp"

#include "megaconv/lowering.hpp"
#include "megaconv/network_file.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace megaconv;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::expect_answer([&] {
    const Network network =
        parse_onnx(fuzz::text_of(data, size), {.image = 8, .most_weights = 1 << 20});
    const std::string file = export_network(network);
    fuzz::require(export_network(import_network(file)) == file, "a network reads back");
    std::int64_t numbers = 0;
    constexpr std::int64_t kSmall = 1 << 14;
    for (const auto& [name, shape] : shapes_of(network)) {
      if (numbers < kSmall) numbers += shape.size();
    }
    if (numbers >= kSmall || network.operators.size() > 64) return;
    const Lowering lowering = lower(network, {}, {}, {.backend = Backend::cpu, .workers = 2});
    fuzz::require(!validate(lowering.graph, lowering.mapping), "the planner's order is right");
  });
  return 0;
}

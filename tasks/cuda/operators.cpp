// SPDX-License-Identifier: Apache-2.0
#include "tasks/cuda/operators.hpp"

#include <span>
#include <variant>

namespace megaconv::cuda {
namespace {

NodeArgs node_args(const Tiling&, const NodePlaces&) { return {}; }
NodeArgs node_args(const InReaderCut&, const NodePlaces&) { return {}; }

}  // namespace

NodeArgs make_node_args(const Cut& cut, const NodePlaces& places) {
  return std::visit([&](const auto& of_room) -> NodeArgs { return node_args(of_room, places); },
                    cut);
}

SecondOutput make_second_output(const Cut& cut, const NodePlaces& places,
                                std::int64_t first_channel) {
  return std::visit(
      [&](const auto& of_room) -> SecondOutput {
        if constexpr (requires { second_output(of_room, places, first_channel); }) {
          return second_output(of_room, places, first_channel);
        } else {
          return {};
        }
      },
      cut);
}

std::vector<std::byte> make_node_table(const Cut& cut, const NodePlaces& places) {
  return std::visit(
      [&](const auto& of_room) -> std::vector<std::byte> {
        if constexpr (requires { node_table(of_room, places); }) {
          const auto table = node_table(of_room, places);
          const auto bytes = std::as_bytes(std::span(table));
          return {bytes.begin(), bytes.end()};
        } else {
          return {};
        }
      },
      cut);
}

}  // namespace megaconv::cuda

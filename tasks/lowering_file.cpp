// SPDX-License-Identifier: Apache-2.0
// What the sections of a mapping file say of a convolution: the numbers of its tiling that are
// chosen. All others follow from them, and the graph is cut anew and compared.
#include "mapping/mapping_file.hpp"
#include "mapping/text.hpp"
#include "megaconv/error.hpp"
#include "megaconv/lowering.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {
namespace {

struct TilingField {
  const char* name;
  std::uint32_t Tiling::*value;
  bool winograd, direct, fused_winograd, implicit_gemm;  // which algorithms have it
};
constexpr TilingField kTilingFields[] = {
    {"m", &Tiling::m, true, false, true, false},
    {"group_tiles", &Tiling::group_tiles, true, false, true, false},
    {"rows_per_group", &Tiling::rows_per_group, false, true, false, false},
    {"cols_per_group", &Tiling::cols_per_group, false, true, false, true},
    {"places_per_group", &Tiling::places_per_group, false, false, false, true},
    {"channel_blocks_per_input_task", &Tiling::channel_blocks_per_input_task, true, false, false,
     true},
    {"tiles_per_transform_task", &Tiling::tiles_per_transform_task, true, false, false, false},
    {"filter_blocks_per_gemm_task", &Tiling::filter_blocks_per_gemm_task, true, true, false, true},
    {"positions_per_gemm_task", &Tiling::positions_per_gemm_task, true, false, false, false},
    {"filter_blocks_per_output_task", &Tiling::filter_blocks_per_output_task, true, false, false,
     false},
    {"filter_blocks_per_filter_task", &Tiling::filter_blocks_per_filter_task, true, true, true,
     true},
    {"channel_blocks_per_filter_task", &Tiling::channel_blocks_per_filter_task, true, false, true,
     true},
    {"v_slots", &Tiling::v_slots, true, false, false, false},
    {"m_slots", &Tiling::m_slots, true, false, false, false},
};

bool has_field(const Tiling& tiling, const TilingField& field) {
  switch (tiling.algorithm) {
    case Algorithm::winograd:
      return field.winograd;
    case Algorithm::direct:
      return field.direct;
    case Algorithm::fused_winograd:
      return field.fused_winograd;
    case Algorithm::implicit_gemm:
      return field.implicit_gemm;
    default:
      return false;  // openCNN's blocking is fixed
  }
}

FileSection section_of(const Tiling& tiling) {
  FileSection cut;
  cut.put("algorithm", to_string(tiling.algorithm));
  cut.put("filters", to_string(tiling.filters));
  if (is_winograd(tiling.algorithm)) cut.put("points", to_string(tiling.points));
  if (tiling.algorithm == Algorithm::winograd || tiling.algorithm == Algorithm::implicit_gemm) {
    cut.put("arithmetic", to_string(tiling.arithmetic));
  }
  if (tiling.algorithm == Algorithm::opencnn) {
    cut.put("output_layout", to_string(tiling.output_layout));
  }
  for (const TilingField& field : kTilingFields) {
    if (has_field(tiling, field)) cut.put(field.name, std::uint64_t{tiling.*field.value});
  }
  return cut;
}

Tiling read_tiling(FileSection& cut, const ConvProblem& problem) {
  Tiling tiling;
  tiling.problem = problem;
  tiling.algorithm =
      cut.choice("algorithm", {Algorithm::direct, Algorithm::winograd, Algorithm::opencnn,
                               Algorithm::fused_winograd, Algorithm::implicit_gemm});
  tiling.filters = cut.choice("filters", {FilterMode::every_run, FilterMode::prepared});
  if (is_winograd(tiling.algorithm)) {
    tiling.points = cut.choice("points", {Points::low_error, Points::integer});
  }
  if (tiling.algorithm == Algorithm::winograd) {
    tiling.arithmetic =
        cut.choice("arithmetic", {Arithmetic::fma, Arithmetic::split_f16, Arithmetic::f16});
  }
  if (tiling.algorithm == Algorithm::implicit_gemm) {
    tiling.arithmetic = cut.choice(
        "arithmetic", {Arithmetic::split_f16, Arithmetic::tf32, Arithmetic::f16, Arithmetic::bf16});
  }
  if (tiling.algorithm == Algorithm::opencnn) {
    tiling.output_layout =
        cut.choice("output_layout", {OutputLayout::baseline, OutputLayout::optSTS64,
                                     OutputLayout::optSTS64_compact, OutputLayout::optLDS64});
  }
  for (const TilingField& field : kTilingFields) {
    if (!has_field(tiling, field)) continue;
    const bool may_be_none = tiling.algorithm == Algorithm::implicit_gemm &&
                             field.value == &Tiling::channel_blocks_per_input_task;
    tiling.*field.value = cut.whole32(field.name, may_be_none ? 0 : 1);
  }
  cut.expect_empty();
  const Tiling given = tiling;
  derive_counts(tiling);
  if (given.algorithm == Algorithm::winograd &&
      (given.v_slots != tiling.v_slots || given.m_slots != tiling.m_slots)) {
    reject_mapping_file(cut.path() + "v_slots: found " + std::to_string(given.v_slots) + ", " +
                        cut.path() + "m_slots: found " + std::to_string(given.m_slots) +
                        ", must be 1 to " + std::to_string(tiling.num_groups));
  }
  return tiling;
}

// The stages of the file must be those that the cut makes.
void compare_stages(const TaskGraph& graph, const MappingFile& file) {
  if (file.stages.size() != graph.stages.size()) {
    reject_mapping_file("stages: found " + std::to_string(file.stages.size()) + ", the cut makes " +
                        std::to_string(graph.stages.size()));
  }
  for (std::size_t i = 0; i < graph.stages.size(); ++i) {
    const Stage& made = graph.stages[i];
    const Stage& found = file.stages[i];
    const auto text = [](const Stage& stage, const std::string& kind) {
      return std::string(to_string(stage.role)) + " " + kind + " of node " +
             std::to_string(stage.node) + ", " + std::to_string(stage.groups) + " groups of " +
             std::to_string(stage.per_group);
    };
    const std::string of_file = text(found, excerpt(file.stage_kinds[i]));
    const std::string of_cut = text(made, graph.kinds[made.kind].name);
    if (of_file == of_cut) continue;
    reject_mapping_file("stages[" + std::to_string(i) + "]: found " + of_file + ", the cut makes " +
                        of_cut);
  }
}

}  // namespace

std::string export_mapping(const Lowering& lowering) {
  if (lowering.nodes.size() != 1 || !std::holds_alternative<Tiling>(lowering.nodes[0].cut)) {
    throw Error(Status::unsupported,
                "export of a mapping: " + std::to_string(lowering.nodes.size()) +
                    " operators, must be one convolution");
  }
  return write_mapping_file({{lowering.graph.nodes.front(), to_string(lowering.tiling().problem),
                              section_of(lowering.tiling())}},
                            lowering.graph, lowering.mapping);
}

Lowering import_mapping(std::string_view text, const ConvProblem* expected) {
  MappingFile file = read_mapping_file(text);
  if (file.nodes.size() != 1) {
    reject_mapping_file("nodes: found " + std::to_string(file.nodes.size()) + ", must be 1");
  }
  FileNode& node = file.nodes.front();
  const ConvProblem problem = parse_problem(node.problem);
  if (expected != nullptr && problem != *expected) {
    reject_mapping_file("it is for " + to_string(problem) + ", must be for " +
                        to_string(*expected));
  }
  const Tiling tiling = read_tiling(node.cut, problem);
  // A few lines must not make us build a huge graph; what is nearly complete is worth a closer
  // look.
  if (num_tasks(tiling) > 65536 + 2 * file.tasks.size()) {
    reject_mapping_file("tasks: found " + std::to_string(file.tasks.size()) + ", the cut makes " +
                        std::to_string(num_tasks(tiling)));
  }
  Lowering lowering = cut(tiling);
  compare_stages(lowering.graph, file);
  lowering.mapping = std::move(file.mapping);
  lowering.mapping.order = task_ids(lowering.graph, file.tasks);
  if (const auto violation = validate(lowering.graph, lowering.mapping)) {
    reject_mapping_file(violation->message);
  }
  return lowering;
}

}  // namespace megaconv

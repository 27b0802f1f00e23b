// SPDX-License-Identifier: Apache-2.0
// What the sections of a mapping file say of a convolution: the numbers of its tiling that are
// chosen. All others follow from them, and the graph is cut anew and compared.
#include "mapping/mapping_file.hpp"
#include "mapping/text.hpp"
#include "megaconv/error.hpp"
#include "megaconv/lowering.hpp"
#include "tasks/conv_algorithm.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {
namespace {

FileSection section_of(Tiling tiling) {
  const ConvAlgorithm& algorithm = algorithm_of(tiling);
  FileSection cut;
  cut.put("algorithm", to_string(tiling.algorithm()));
  cut.put("filters", to_string(tiling.filters));
  algorithm.put_words(tiling, cut);
  for (const CutField& field : algorithm.fields(tiling)) {
    cut.put(field.name, std::uint64_t{field.value});
  }
  return cut;
}

Tiling read_tiling(FileSection& cut, const ConvProblem& problem) {
  Tiling tiling;
  tiling.problem = problem;
  const ConvAlgorithm& algorithm = conv_algorithm(cut.choice(
      "algorithm", {Algorithm::direct, Algorithm::winograd, Algorithm::opencnn,
                    Algorithm::fused_winograd, Algorithm::implicit_gemm, Algorithm::small_gemm}));
  tiling.filters = cut.choice("filters", {FilterMode::every_run, FilterMode::prepared});
  tiling.cut = algorithm.empty_cut();
  algorithm.take_words(cut, tiling);
  for (const CutField& field : algorithm.fields(tiling)) {
    field.value = cut.whole32(field.name, field.least);
  }
  cut.expect_empty();
  const Tiling given = tiling;
  derive_counts(tiling);
  const Window* const asked = given.window();  // which derive_counts() clamps
  if (asked != nullptr && *asked != *tiling.window()) {
    reject_mapping_file(cut.path() + "v_slots: found " + std::to_string(asked->v_slots) + ", " +
                        cut.path() + "m_slots: found " + std::to_string(asked->m_slots) +
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

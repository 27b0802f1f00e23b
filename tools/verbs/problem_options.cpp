// SPDX-License-Identifier: Apache-2.0
// The options of problem_selection.hpp.
#include <CLI/CLI.hpp>

#include "tools/verbs/choice.hpp"
#include "tools/verbs/number.hpp"
#include "tools/verbs/problem_selection.hpp"

namespace megaconv::cli {

void add_tensor_options(CLI::App& app, ProblemArguments& arguments) {
  app.add_option_function<std::string>(
         "--layout",
         [&](const std::string& text) {
           arguments.layout =
               choose<Layout>("--layout", text,
                              named({Layout::nchw, Layout::nhwc, Layout::chwn, Layout::nchw16c}));
         },
         "Memory order of the tensors: nchw, nhwc, chwn or nchw16c")
      ->type_name("LAYOUT")
      ->group("Problem");
  app.add_option_function<std::string>(
         "--dtype",
         [&](const std::string& text) {
           arguments.dtype = choose<DataType>(
               "--dtype", text,
               named({DataType::f32, DataType::f16, DataType::bf16, DataType::i8}));
         },
         "Storage type of the tensors: f32, f16, bf16 or i8")
      ->type_name("TYPE")
      ->group("Problem");
  app.add_option_function<std::string>(
         "--epilogue", [&](const std::string& text) { arguments.epilogue = parse_epilogue(text); },
         "What follows the sum: scale, bias, residual, an activation, any of them, or none")
      ->type_name("LIST")
      ->group("Problem");
}

void add_problem_options(CLI::App& app, ProblemArguments& arguments, Selection selection) {
  const bool many = selection == Selection::many;
  app.add_option("problem", arguments.problems,
                 many ? "Problem strings: n1c64h56k64" : "Problem string: n1c64h56k64")
      ->type_name("PROBLEM")
      ->expected(0, many ? 1 << 20 : 1);
  if (many) {
    app.add_option("--network", arguments.network,
                   "3x3 layers of resnet50, vgg16, yolov3 or densenet161, with a batch of 4")
        ->type_name("NAME")
        ->group("Problem");
    app.add_flag("--suite", arguments.suite,
                 "All layers of all networks, with their usual batch sizes")
        ->group("Problem");
    app.add_option("--layers", arguments.layers_file,
                   "Your own layers: lines name,N,C,H,W,K or name,PROBLEM")
        ->type_name("FILE.csv")
        ->group("Problem");
  }
  app.add_option("--batch", arguments.batch, "Batch size, whatever the problem says")
      ->check(number_from<std::int64_t>(1))
      ->type_name("N")
      ->group("Problem");
  add_tensor_options(app, arguments);
}

}  // namespace megaconv::cli

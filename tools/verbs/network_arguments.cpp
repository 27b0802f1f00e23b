// SPDX-License-Identifier: Apache-2.0
#include "tools/verbs/network_arguments.hpp"

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "tools/verbs/choice.hpp"

namespace megaconv::cli {

void add_network_options(CLI::App& app, NetworkChoice& network) {
  const auto add = [&](const char* name, std::optional<std::int64_t>& value,
                       const char* description) {
    app.add_option(name, value, description)->type_name("N")->group("Network");
  };
  add("--batch", network.batch, "Images; default: 1, or as the file says");
  add("--image", network.image,
      "Height and width of the images; default: the usual.\nOf an ONNX model: where it leaves them "
      "open");
  add("--classes", network.classes, "Classes of a built-in network; default: the usual");
  const auto add_word = [&](const char* name, auto& target, auto choices, const char* type,
                            const char* description) {
    app.add_option_function<std::string>(
           name,
           [name, &target, choices](const std::string& word) {
             using Value = typename std::remove_reference_t<decltype(target)>::value_type;
             target = choose<Value>(name, word, choices);
           },
           description)
        ->type_name(type)
        ->group("Network");
  };
  add_word("--dtype", network.dtype, named({DataType::f32, DataType::f16, DataType::bf16}), "TYPE",
           "Storage type of all values: f32 (default), f16 or bf16");
  add_word("--layout", network.layout, named({Layout::nhwc, Layout::nchw}), "NAME",
           "Memory order of all values: nhwc (default) or nchw");
}

void add_network_plan_options(CLI::App& app, PlanArguments& plan) {
  app.add_option_function<std::string>(
         "--algo",
         [&plan](const std::string& word) {
           plan.options.tiling.algorithm = choose<Algorithm>(
               "--algo", word, {{"auto", Algorithm::automatic}, {"direct", Algorithm::direct}});
         },
         "Of all convolutions: auto (default) or direct")
      ->type_name("NAME")
      ->group("Plan");
  add_network_device_options(app, plan.options);
  app.add_option("--threads", plan.options.num_threads,
                 "Worker threads; 0 (default): MEGACONV_NUM_THREADS, else all CPUs")
      ->type_name("N")
      ->group("Plan");
  app.add_option("--seed", plan.seed, "Seed of everything random")
      ->type_name("N")
      ->capture_default_str()
      ->group("Plan");
}

Network network_of(const std::string& word, NetworkChoice choice, const PlanArguments& plan) {
  choice.seed = plan.seed;
  return network_of(word, choice);
}

PlanOptions network_plan_options(const PlanArguments& plan) {
  PlanOptions options = plan.options;
  options.mapping.seed = plan.seed;
  return options;
}

}  // namespace megaconv::cli

// SPDX-License-Identifier: Apache-2.0
// megaconv completion and megaconv manual: for shells and man, to stdout.
#include <cstdio>
#include <memory>
#include <string>

#include "tools/verbs/commands.hpp"
#include "tools/verbs/completion.hpp"

namespace megaconv::cli {

void add_completion(CLI::App& app, Action& action) {
  CLI::App* completion =
      app.add_subcommand("completion", "A script that completes verbs and options in a shell");
  completion->footer(R"(
Examples:
  source <(megaconv completion bash)
  megaconv completion zsh >"${fpath[1]}/_megaconv"
  megaconv completion fish >~/.config/fish/completions/megaconv.fish)");
  const auto shell = std::make_shared<std::string>();
  completion->add_option("shell", *shell, "bash, zsh or fish")->type_name("SHELL")->required();
  completion->callback([&app, &action, shell] {
    action = [&app, shell] {
      std::fputs(completion_script(app, *shell).c_str(), stdout);
      return ExitCode::ok;
    };
  });
  CLI::App* manual = app.add_subcommand("manual", "This manual, for man");
  manual->footer("\nExample:\n  megaconv manual | man -l -");
  manual->callback([&app, &action] {
    action = [&app] {
      std::fputs(manual_page(app).c_str(), stdout);
      return ExitCode::ok;
    };
  });
}

}  // namespace megaconv::cli

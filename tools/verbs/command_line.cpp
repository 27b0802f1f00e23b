// SPDX-License-Identifier: Apache-2.0
// The verbs in the style of git. Results go to stdout, everything else to stderr; every failure is
// one line and an exit status (exit_code.hpp).
#include "tools/verbs/command_line.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <iostream>
#include <memory>
#include <new>
#include <string>

#include "megaconv/error.hpp"
#include "megaconv/plan.hpp"
#include "tools/report/terminal.hpp"
#include "tools/verbs/commands.hpp"
#include "tools/verbs/help.hpp"
#include "tools/verbs/log.hpp"
#include "tools/verbs/suggest.hpp"

namespace megaconv::cli {
namespace {

constexpr const char* kCommandFooter = R"(
A problem is a string, n1c64h56k64: batch, channels, height (width, if not the same: w), filters.
Add r s p u d g for filter height and width, padding, stride, dilation, groups, and +nhwc, +i8,
+scale, +bias, +residual, +relu.

Exit status: 0 done and right, 1 a result is wrong or mappings differ, 2 usage, 3 unsupported,
4 environment (file, memory, device), 5 timeout, 6 internal error.

Examples:
  megaconv bench --network resnet50
  megaconv run n1c64h56k64 --threads 2
  megaconv verify --count 2000 --seed 1
  megaconv bench --help)";

int fail(ExitCode code, const std::string& message) {
  std::fprintf(stderr, "megaconv: error: %s\n", one_line(message).c_str());
  return static_cast<int>(code);
}

/// `code`, unless what was written to standard output did not arrive.
int finish(ExitCode code) {
  std::cout.flush();  // the help's
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0 || !std::cout) {
    return fail(ExitCode::environment, "cannot write to standard output");
  }
  return static_cast<int>(code);
}

int run_command(int argc, char** argv) {
  init_log();
  CLI::App app("Convolution as a task graph inside one persistent kernel.", "megaconv");
  app.set_version_flag("-V,--version", std::string("megaconv ") + version());
  app.footer(kCommandFooter);
  app.formatter(std::make_shared<HelpFormatter>());

  Action action;
  add_info(app, action);
  add_run(app, action);
  add_bench(app, action);
  add_verify(app, action);
  add_map(app, action);
  add_trace(app, action);
  add_simulate(app, action);
  add_lab(app, action);
  add_net(app, action);
  add_tune(app, action);
  add_completion(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
      app.exit(error);
      return finish(ExitCode::ok);
    }
    const std::string message = unknown_word(app, argc, argv).value_or(error.what());
    return fail(ExitCode::usage, message + " (see --help)");
  }
  if (!action) {
    return fail(ExitCode::usage,
                "a verb is missing, must be info, run, bench, verify, map, trace, simulate, lab, "
                "net, tune, completion or manual (see --help)");
  }
  return finish(action());
}

}  // namespace

int run_megaconv(int argc, char** argv) {
  try {
    return run_command(argc, argv);
  } catch (const Error& error) {
    return fail(exit_code(error.status()), error.what());
  } catch (const std::bad_alloc&) {
    return fail(ExitCode::environment, "out of memory");
  } catch (const std::exception& error) {
    return fail(ExitCode::internal, error.what());
  }
}

}  // namespace megaconv::cli

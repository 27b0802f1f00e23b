// SPDX-License-Identifier: Apache-2.0
// A trace file that is read can be analysed, and writes itself.
#include "megaconv/trace.hpp"

#include "tests/fuzz/fuzz.hpp"
#include "tools/report/trace_json.hpp"

using namespace megaconv;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::expect_answer([&] {
    const cli::RecordedRun run = cli::parse_trace(fuzz::text_of(data, size));
    cli::trace_table(analyse(run.lowering, run.trace));
    replay(run.lowering, run.trace);
    const std::string text = cli::trace_json(run);
    fuzz::require(cli::trace_json(cli::parse_trace(text)) == text, "a trace reads as written");
  });
  return 0;
}

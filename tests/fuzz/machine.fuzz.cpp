// SPDX-License-Identifier: Apache-2.0
// A machine model that is read reads back.
#include "megaconv/machine.hpp"

#include "tests/fuzz/fuzz.hpp"

using namespace megaconv;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::expect_answer([&] {
    const MachineModel machine = parse_machine(fuzz::text_of(data, size));
    fuzz::require(parse_machine(to_json(machine)) == machine, "a machine model reads back");
  });
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// A file of a network that is read reads as it was written.
#include "megaconv/network_file.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace megaconv;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::expect_answer([&] {
    const std::string file = export_network(import_network(fuzz::text_of(data, size)));
    fuzz::require(export_network(import_network(file)) == file, "a network reads back");
  });
  return 0;
}

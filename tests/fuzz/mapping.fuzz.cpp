// SPDX-License-Identifier: Apache-2.0
// A mapping file that is read writes itself, and is proven or refused.
#include "megaconv/lowering.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace megaconv;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::expect_answer([&] {
    const Lowering lowering = import_mapping(fuzz::text_of(data, size));
    const std::string text = export_mapping(lowering);
    fuzz::require(export_mapping(import_mapping(text)) == text, "a file reads as it was written");
    validate(lowering.graph, lowering.mapping);
  });
  return 0;
}

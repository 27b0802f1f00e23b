// SPDX-License-Identifier: Apache-2.0
// An array that is read has the elements that its shape says.
#include "tools/run/npy.hpp"

#include "tests/fuzz/fuzz.hpp"

using namespace megaconv;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::InputFile file(fuzz::text_of(data, size));
  for (const std::size_t rank : {4, 1}) {
    fuzz::expect_answer([&] {
      const cli::NpyArray array = cli::read_npy(file.path(), rank);
      std::size_t bytes = size_of(array.dtype);
      for (const std::int64_t extent : array.shape) bytes *= static_cast<std::size_t>(extent);
      fuzz::require(array.shape.size() == rank && array.data.bytes() == bytes, "bytes of an array");
      fuzz::require(bytes < size, "an array has no more than its file");
    });
  }
  return 0;
}

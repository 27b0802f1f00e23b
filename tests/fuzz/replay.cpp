// SPDX-License-Identifier: Apache-2.0
// Where libFuzzer is not: gives a target the files of its corpus, once. It must accept some, so
// that a change of the format is noticed.
//
//   fuzz_mapping FOLDER...
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/fuzz/fuzz.hpp"

int main(int argc, char** argv) {
  int files = 0;
  for (int i = 1; i < argc; ++i) {
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      std::printf("%s\n", entry.path().c_str());
      std::fflush(stdout);
      std::ifstream stream(entry.path(), std::ios::binary);
      const std::string content(std::istreambuf_iterator<char>(stream), {});
      LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(content.data()), content.size());
      ++files;
    }
  }
  std::printf("%d files, %d times accepted\n", files, megaconv::fuzz::accepted);
  return megaconv::fuzz::accepted > 0 ? 0 : 2;
}

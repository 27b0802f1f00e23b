// SPDX-License-Identifier: Apache-2.0
#include "tools/report/machine_info.hpp"

#include <fstream>

namespace megaconv::cli {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream stream(path);
  std::string line;
  std::getline(stream, line);
  return line;
}

}  // namespace

std::vector<std::string> cpu_caches() {
  std::vector<std::string> caches;
  for (int index = 0;; ++index) {
    const std::string folder =
        "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + '/';
    const std::string level = first_line(folder + "level"), type = first_line(folder + "type");
    if (level.empty()) return caches;
    if (type == "Instruction") continue;
    caches.push_back('L' + level + (type == "Data" ? " data " : " ") + first_line(folder + "size"));
  }
}

std::string compiler() {
#if defined(__clang__)
  return "clang++ " __clang_version__;
#else
  return "g++ " __VERSION__;
#endif
}

std::string git_describe() { return MEGACONV_GIT_DESCRIBE; }

}  // namespace megaconv::cli

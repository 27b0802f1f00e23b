// SPDX-License-Identifier: Apache-2.0
// The only file that includes Catch2; version 2.13 and version 3 both serve.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
#else
#include <catch2/catch.hpp>
#include <string>
inline auto ContainsSubstring(const std::string& text) { return Catch::Matchers::Contains(text); }
#define SKIP(...)                  \
  do {                             \
    WARN("SKIPPED: " __VA_ARGS__); \
    return;                        \
  } while (0)
#endif

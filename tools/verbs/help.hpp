// SPDX-License-Identifier: Apache-2.0
// How --help looks.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace megaconv::cli {

/// CLI11's formatter, with no more about an option than its value's name and default: which options
/// need or exclude each other is said when they meet.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter();
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_group(std::string group, bool is_positional,
                         std::vector<const CLI::Option*> options) const override;
  std::string make_footer(const CLI::App* app) const override;
};

}  // namespace megaconv::cli

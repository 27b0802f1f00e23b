// SPDX-License-Identifier: Apache-2.0
#include "tools/verbs/help.hpp"

#include <utility>

namespace megaconv::cli {

HelpFormatter::HelpFormatter() { column_width(28); }

std::string HelpFormatter::make_option_opts(const CLI::Option* option) const {
  if (option->get_type_size() == 0) return {};  // a flag
  const std::string type = option->get_type_name();
  std::string text = ' ' + type.substr(0, type.find(':'));  // without the names of validators
  if (!option->get_default_str().empty()) text += " (" + option->get_default_str() + ')';
  return text;
}

// One blank line between groups, not two.
std::string HelpFormatter::make_group(std::string group, bool is_positional,
                                      std::vector<const CLI::Option*> options) const {
  const std::string text = Formatter::make_group(std::move(group), is_positional, options);
  return text.substr(text.find_first_not_of('\n'));
}

std::string HelpFormatter::make_footer(const CLI::App* app) const {
  return app->get_footer() + '\n';
}

}  // namespace megaconv::cli

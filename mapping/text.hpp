// SPDX-License-Identifier: Apache-2.0
// Text that came from outside, made fit to stand in a one-line error.
#pragma once

#include <string>
#include <string_view>

namespace megaconv {

/// At most `most` characters of `text`, with everything but printable ASCII shown as '?'.
inline std::string excerpt(std::string_view text, std::size_t most = 80) {
  std::string shown;
  for (char ch : text.substr(0, most)) shown += ch >= ' ' && ch <= '~' ? ch : '?';
  if (text.size() > most) shown += "...";
  return shown;
}

}  // namespace megaconv

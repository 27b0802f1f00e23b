// SPDX-License-Identifier: Apache-2.0
#include "megaconv/error.hpp"

namespace megaconv {

const char* to_string(Status status) noexcept {
  switch (status) {
    case Status::invalid_argument:
      return "invalid_argument";
    case Status::unsupported:
      return "unsupported";
    case Status::out_of_memory:
      return "out_of_memory";
    case Status::device_error:
      return "device_error";
    case Status::timeout:
      return "timeout";
    case Status::internal:
      return "internal";
  }
  return "unknown";
}

}  // namespace megaconv

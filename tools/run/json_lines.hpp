// SPDX-License-Identifier: Apache-2.0
// Lines of JSON: what processes say to each other, and what exports hold.
#pragma once

#include <exception>
#include <nlohmann/json.hpp>
#include <string>

namespace megaconv::cli {

using Json = nlohmann::ordered_json;

/// Throws Error(invalid_argument) for anything but an object.
void require_object(const Json& json);

/// A line with a JSON object, or Error(invalid_argument) that says where it is wrong.
Json parse_line(const std::string& line);

/// {"error": "...", "status": 3}, a process's last line.
Json error_line(const std::exception& error);

/// Throws the Error that error_line() was made of; does nothing for other lines.
void throw_error_of(const Json& line);

}  // namespace megaconv::cli

// SPDX-License-Identifier: Apache-2.0
#include "tools/run/json_lines.hpp"

#include "mapping/json_text.hpp"
#include "mapping/text.hpp"
#include "megaconv/error.hpp"

namespace megaconv::cli {

void require_object(const Json& json) {
  if (json.is_object()) return;
  throw Error(Status::invalid_argument,
              "a line is " + excerpt(json.dump(), 60) + ", must be an object");
}

Json parse_line(const std::string& line) {
  auto json = parse_json<Json>(line, kSmallJson, "not JSON");
  require_object(json);
  return json;
}

Json error_line(const std::exception& error) {
  const auto* const own = dynamic_cast<const Error*>(&error);
  const Status status = own != nullptr ? own->status() : Status::internal;
  return {{"error", error.what()}, {"status", static_cast<int>(status)}};
}

void throw_error_of(const Json& line) {
  if (!line.contains("error")) return;
  throw Error(static_cast<Status>(line.value("status", static_cast<int>(Status::internal))),
              line["error"].get<std::string>());
}

}  // namespace megaconv::cli

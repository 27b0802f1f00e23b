// SPDX-License-Identifier: Apache-2.0
#include "tools/report/records.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string_view>

#include "megaconv/error.hpp"
#include "megaconv/plan.hpp"
#include "tools/report/machine_info.hpp"
#include "tools/run/file_io.hpp"

namespace megaconv::cli {
namespace {

std::string csv_field(const Record& value) {
  if (value.is_null()) return {};
  if (!value.is_string()) return value.dump();
  const auto& text = value.get_ref<const std::string&>();
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char ch : text) quoted += ch == '"' ? std::string("\"\"") : std::string(1, ch);
  return quoted + '"';
}

}  // namespace

void add_output_options(CLI::App& app, OutputArguments& arguments) {
  CLI::Option* json = app.add_flag("--json", arguments.json, "Results as JSON")->group("Output");
  app.add_flag("--csv", arguments.csv, "Results as CSV")->group("Output")->excludes(json);
  app.add_option("-o,--output", arguments.file,
                 "File for --json or --csv; without it they go to stdout")
      ->type_name("FILE")
      ->group("Output");
}

void check_output(const OutputArguments& arguments) {
  if (arguments.file.empty()) return;
  if (!arguments.json && !arguments.csv) {
    throw Error(Status::invalid_argument, "-o " + arguments.file + " needs --json or --csv");
  }
  require_writable(arguments.file);
}

void write_records(const std::vector<Record>& records, const OutputArguments& arguments) {
  if (!arguments.json && !arguments.csv) return;
  const std::string text = arguments.json ? to_json(records) : to_csv(records);
  if (arguments.file.empty()) {
    std::fputs(text.c_str(), stdout);
  } else {
    write_file(arguments.file, text);
  }
}

RecordSite site_of(const Device& device) { return {device.backend(), device.name(), device.isa()}; }

Record record_head(const char* kind, const RecordSite& site, std::optional<std::uint32_t> workers,
                   std::uint64_t seed) {
  return {{"schema_version", kSchemaVersion},
          {"kind", kind},
          {"version", version()},
          {"git", git_describe()},
          {"backend", to_string(site.backend)},
          {"device", site.device},
          {"isa", site.isa},
          {"workers", workers ? Record(*workers) : Record()},
          {"seed", seed}};
}

std::string to_json(const std::vector<Record>& records) {
  std::string text = "[";
  for (const Record& record : records) {
    text += text.size() == 1 ? "\n  " : ",\n  ";
    text += record.dump(-1, ' ', false, Record::error_handler_t::replace);
  }
  return text + "\n]\n";
}

std::string to_csv(const std::vector<Record>& records) {
  std::string text;
  const auto put_line = [&](const Record& record, bool keys) {
    std::string separator;
    for (const auto& [key, value] : record.items()) {
      text += separator + (keys ? csv_field(key) : csv_field(value));
      separator = ",";
    }
    text += '\n';
  };
  if (!records.empty()) put_line(records.front(), true);
  for (const Record& record : records) put_line(record, false);
  return text;
}

}  // namespace megaconv::cli

// SPDX-License-Identifier: Apache-2.0
// Measurements from outside: a line of JSON, which reads back, or the file of a plan database.
#include "megaconv/plan_database.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tools/tune/tune_json.hpp"

using namespace megaconv;

namespace {

void read_line(const std::string& line) {
  const cli::Json json = cli::parse_line(line);
  const PlanKey key = cli::key_from_json(json);
  fuzz::require(cli::key_from_json(cli::to_json(key)) == key, "a key reads back");
  const cli::Json again = cli::to_json(cli::measurement_from_json(json));
  fuzz::require(cli::to_json(cli::measurement_from_json(again)) == again,
                "a measurement reads back");
}

void read_database(std::string_view bytes) {
  const fuzz::InputFile file(bytes);
  const PlanDatabase database(file.path(), PlanDatabase::Access::read);
  for (const PlanKey& key : database.keys()) {
    const std::size_t all = database.measurements(key).size();
    const std::vector<Measurement> tried = database.tried(key);
    fuzz::require(tried.size() <= all, "what was tried is some of all");
    rank(tried);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes = fuzz::text_of(data, size);
  fuzz::expect_answer(
      [&] { bytes.starts_with('{') ? read_line(std::string(bytes)) : read_database(bytes); });
  return 0;
}

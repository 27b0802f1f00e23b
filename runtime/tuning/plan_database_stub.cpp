// SPDX-License-Identifier: Apache-2.0
// The plan database of a build without SQLite: there, and refuses.
#include "megaconv/error.hpp"
#include "megaconv/plan_database.hpp"

namespace megaconv {

struct PlanDatabase::State {
  std::string file;
};

PlanDatabase::PlanDatabase(const std::string& file, Access) {
  throw Error(Status::unsupported,
              "plan database " + file + ": this build has no SQLite (package libsqlite3-dev)");
}
bool PlanDatabase::available() noexcept { return false; }

PlanDatabase::~PlanDatabase() = default;
PlanDatabase::PlanDatabase(PlanDatabase&&) noexcept = default;
PlanDatabase& PlanDatabase::operator=(PlanDatabase&&) noexcept = default;

const std::string& PlanDatabase::file() const { return state_->file; }
void PlanDatabase::add(const PlanKey&, std::span<const Measurement>) {}
std::vector<Measurement> PlanDatabase::measurements(const PlanKey&) const { return {}; }
std::vector<Measurement> PlanDatabase::tried(const PlanKey&) const { return {}; }
std::vector<PlanKey> PlanDatabase::keys() const { return {}; }
std::uint64_t PlanDatabase::num_foreign(const PlanKey&) const { return 0; }
std::uint64_t PlanDatabase::merge(const std::string&) { return 0; }
void PlanDatabase::copy_to(const std::string&) const {}

}  // namespace megaconv

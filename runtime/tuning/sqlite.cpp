// SPDX-License-Identifier: Apache-2.0
#include "runtime/tuning/sqlite.hpp"

#include "mapping/text.hpp"
#include "megaconv/error.hpp"

namespace megaconv::sqlite {
namespace {

// Another process's transaction takes milliseconds; one that holds the file this long is stuck.
constexpr int kBusyMs = 10'000;

// A row of a measurement with thousands of samples has 100 kB.
constexpr int kMostValueBytes = 1 << 20;
// Some 10 s; a merge of a million rows takes 2 * 10^8.
constexpr std::int64_t kMostSteps = 1'000'000'000;
constexpr int kStepsACall = 100'000;

std::string explain(int code, sqlite3* handle) {
  switch (code & 0xff) {
    case SQLITE_NOTADB:
      return "it is not a plan database";
    case SQLITE_CORRUPT:
      return "it is damaged; move it away to start a new one (`sqlite3 FILE .recover` may save "
             "rows)";
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return "another process has kept it locked for " + std::to_string(kBusyMs / 1000) + " s";
    case SQLITE_READONLY:
      return "it, or its folder, may only be read";
    case SQLITE_FULL:
      return "the disk is full; all that was added before is kept";
    case SQLITE_IOERR:
      return "reading or writing it failed (disk I/O error); all that was added before is kept";
    case SQLITE_CANTOPEN:
      return "it cannot be opened or created";
    case SQLITE_TOOBIG:
      return "a value in it has more than " + std::to_string(kMostValueBytes) + " bytes";
    case SQLITE_INTERRUPT:
      return "a statement took more than " + std::to_string(kMostSteps) + " steps";
    default:
      return excerpt(handle != nullptr ? sqlite3_errmsg(handle) : sqlite3_errstr(code), 200);
  }
}

}  // namespace

Connection::Connection(const std::string& uri, std::string file, int flags)
    : file_(std::move(file)) {
  const int code = sqlite3_open_v2(uri.c_str(), &handle_, flags | SQLITE_OPEN_URI, nullptr);
  if (code == SQLITE_OK) {
    sqlite3_busy_timeout(handle_, kBusyMs);
    distrust();
    return;
  }
  sqlite3* const failed = handle_;
  const std::string reason = explain(code, failed);
  sqlite3_close_v2(failed);
  throw Error(Status::device_error, "plan database " + file_ + ": " + reason);
}

void Connection::distrust() {
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_limit(handle_, SQLITE_LIMIT_LENGTH, kMostValueBytes);
  sqlite3_progress_handler(handle_, kStepsACall, count_steps, this);
}

int Connection::count_steps(void* self) {
  std::int64_t& steps = static_cast<Connection*>(self)->steps_;
  steps += kStepsACall;
  return steps > kMostSteps ? 1 : 0;
}

void Connection::check(int code) const {
  if (code == SQLITE_OK || code == SQLITE_ROW || code == SQLITE_DONE) return;
  throw Error(Status::device_error, "plan database " + file_ + ": " + explain(code, handle_));
}

void Connection::run(const std::string& sql) {
  restart_steps();
  check(sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr));
}

std::int64_t Connection::number(const std::string& sql) {
  Statement statement(*this, sql);
  return statement.step() ? statement.number(0) : 0;
}

std::string Connection::text(const std::string& sql) {
  Statement statement(*this, sql);
  return statement.step() ? statement.text(0) : std::string();
}

Statement::Statement(Connection& connection, std::string_view sql) : connection_(connection) {
  connection.restart_steps();
  connection_.check(sqlite3_prepare_v2(connection_.handle(), sql.data(),
                                       static_cast<int>(sql.size()), &handle_, nullptr));
}

Statement& Statement::bind(std::string_view text) {
  connection_.check(sqlite3_bind_text(handle_, ++bound_, text.data(), static_cast<int>(text.size()),
                                      SQLITE_TRANSIENT));
  return *this;
}

Statement& Statement::bind(std::int64_t number) {
  connection_.check(sqlite3_bind_int64(handle_, ++bound_, number));
  return *this;
}

Statement& Statement::bind(double number) {
  connection_.check(sqlite3_bind_double(handle_, ++bound_, number));
  return *this;
}

bool Statement::step() {
  const int code = sqlite3_step(handle_);
  connection_.check(code);
  return code == SQLITE_ROW;
}

void Statement::reset() {
  sqlite3_reset(handle_);
  bound_ = 0;
}

std::string Statement::text(int column) const {
  const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(handle_, column));
  if (data == nullptr) return {};
  const auto bytes = static_cast<std::size_t>(sqlite3_column_bytes(handle_, column));
  return excerpt({data, bytes}, bytes);
}

}  // namespace megaconv::sqlite

// SPDX-License-Identifier: Apache-2.0
// SQLite with exceptions: a connection, a statement, a transaction. The file may come from
// anywhere: its schema runs no code of its own, a value has a largest size and a statement a
// largest number of steps.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace megaconv::sqlite {

class Connection {
 public:
  /// `uri`: SQLite's file:... form. `file` is the name in error messages.
  Connection(const std::string& uri, std::string file, int flags);
  ~Connection() { sqlite3_close_v2(handle_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void run(const std::string& sql);
  std::int64_t number(const std::string& sql);
  std::string text(const std::string& sql);
  std::int64_t changes() const { return sqlite3_changes64(handle_); }
  sqlite3* handle() const { return handle_; }
  const std::string& file() const { return file_; }
  /// Throws Error(device_error) unless `code` is a success.
  void check(int code) const;
  /// The steps of SQLite's machine that the next statement may take are counted from here.
  void restart_steps() { steps_ = 0; }

 private:
  static int count_steps(void* self);
  void distrust();

  std::string file_;
  sqlite3* handle_ = nullptr;
  std::int64_t steps_ = 0;
};

class Statement {
 public:
  Statement(Connection& connection, std::string_view sql);
  ~Statement() { sqlite3_finalize(handle_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& bind(std::string_view text);
  Statement& bind(std::int64_t number);
  Statement& bind(double number);
  /// True when there is a row.
  bool step();
  void reset();
  /// With everything but printable ASCII shown as '?': a terminal may see it.
  std::string text(int column) const;
  std::int64_t number(int column) const { return sqlite3_column_int64(handle_, column); }
  double real(int column) const { return sqlite3_column_double(handle_, column); }

 private:
  Connection& connection_;
  sqlite3_stmt* handle_ = nullptr;
  int bound_ = 0;
};

/// Rolled back unless committed.
class Transaction {
 public:
  explicit Transaction(Connection& connection) : connection_(connection) {
    connection_.run("BEGIN IMMEDIATE");
  }
  ~Transaction() {
    if (open_) sqlite3_exec(connection_.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
  }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit() {
    connection_.run("COMMIT");
    open_ = false;
  }

 private:
  Connection& connection_;
  bool open_ = true;
};

}  // namespace megaconv::sqlite

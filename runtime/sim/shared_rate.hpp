// SPDX-License-Identifier: Apache-2.0
// A rate that all its users share equally: bandwidth, or the multipliers of an SM.
//
// With n users each is served at rate / n. What one user has been served since the beginning is the
// same for all and grows at that speed: the service clock. A user that needs `amount` is done when
// the clock has advanced by it, so users leave in the order of (clock at arrival + amount) and
// every arrival and departure costs O(log n), not O(n).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <queue>
#include <vector>

namespace megaconv::sim {

class SharedRate {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  /// `rate` is in units of amount a nanosecond.
  explicit SharedRate(double rate) : rate_(rate) {}

  void arrive(double now_ns, double amount, std::uint32_t user) {
    advance(now_ns);
    users_.push({clock_ + amount, user});
  }

  /// When the next user is done, if nobody else arrives.
  double next_departure_ns() const {
    if (users_.empty()) return kNever;
    const double speed = rate_ / static_cast<double>(users_.size());
    return since_ns_ + std::max(0.0, users_.top().done_at - clock_) / speed;
  }

  /// Removes the user who is done at `now_ns` = next_departure_ns().
  std::uint32_t depart(double now_ns) {
    advance(now_ns);
    const User user = users_.top();
    clock_ = std::max(clock_, user.done_at);
    users_.pop();
    return user.id;
  }

 private:
  struct User {
    double done_at;  // by the service clock
    std::uint32_t id;
    bool operator<(const User& other) const {  // the queue's top is the one that is done first
      return done_at != other.done_at ? done_at > other.done_at : id > other.id;
    }
  };

  void advance(double now_ns) {
    if (!users_.empty()) {
      clock_ += (now_ns - since_ns_) * rate_ / static_cast<double>(users_.size());
    }
    since_ns_ = now_ns;
  }

  double rate_, clock_ = 0, since_ns_ = 0;
  std::priority_queue<User> users_;
};

}  // namespace megaconv::sim

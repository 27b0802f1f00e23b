// SPDX-License-Identifier: Apache-2.0
// One of several plain structs, and which: a std::variant for the device. Kernels of networks
// compile to the same instructions with it as with a union and a switch by hand. With std::variant
// these are others, and where get_if() is tested, registers are spilled.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <type_traits>

namespace megaconv::cuda {

template <class... Types>
class OneOf {
  static_assert((std::is_trivially_copyable_v<Types> && ...));
  template <class T>
  static constexpr std::uint32_t find() {
    constexpr bool kIs[] = {std::is_same_v<T, Types>...};
    return static_cast<std::uint32_t>(std::find(std::begin(kIs), std::end(kIs), true) - kIs);
  }

 public:
  static constexpr std::uint32_t kCount = sizeof...(Types);
  template <class T>
  static constexpr std::uint32_t kIndexOf = find<T>();

  OneOf() = default;
  template <class T>
  OneOf(const T& value) : index(kIndexOf<T>) {
    static_assert(kIndexOf<T> < kCount);
    std::memcpy(&members_, &value, sizeof(value));
  }

  std::uint32_t index = kCount;  ///< none of them

  /// The value, if it is a T.
  template <class T>
  constexpr const T& as() const {
    return get<kIndexOf<T>>(members_);
  }

  /// visit(value), if it is of a type from kFirst on.
  template <std::uint32_t kFirst, class Visit>
  constexpr void visit_from(const Visit& visit) const {
    if (index == kFirst) {
      visit(get<kFirst>(members_));
    } else if constexpr (kFirst + 1 < kCount) {
      visit_from<kFirst + 1>(visit);
    }
  }

 private:
  template <class First, class... Rest>
  union Members {
    First first;
    Members<Rest...> rest;
  };
  template <class First>
  union Members<First> {
    First first;
  };
  template <std::uint32_t kIndex, class Of>
  static constexpr const auto& get(const Of& members) {
    if constexpr (kIndex == 0) {
      return members.first;
    } else {
      return get<kIndex - 1>(members.rest);
    }
  }

  Members<Types...> members_{};
};

}  // namespace megaconv::cuda

// SPDX-License-Identifier: Apache-2.0
// Structs of the C ABI that grow: the rule of megaconv.h, "How structs grow".
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <type_traits>

#include "megaconv/error.hpp"
#include "megaconv/megaconv.h"

namespace megaconv {

/// Bytes of `type` up to and including `field`. When it is the last field, this must be the size:
/// else a later field could lie in padding, which older callers leave undefined.
#define MEGACONV_BYTES_TO(type, field) (offsetof(type, field) + sizeof(type::field))

/// The caller's struct_size. Throws Error(invalid_argument) when it is impossible, or when one of
/// the bytes that this library does not know is not zero. `first_bytes`: size of the struct's first
/// version. `type`: its name, for messages.
template <class T>
std::size_t check_struct_size(const T* given, std::size_t first_bytes, const char* type) {
  static_assert(std::is_trivially_copyable_v<T> && offsetof(T, struct_size) == 0);
  std::size_t size = 0;
  std::memcpy(&size, given, sizeof(size));
  const auto reject = [&](const std::string& what) {
    throw Error(Status::invalid_argument,
                std::string(type) + ".struct_size = " + std::to_string(size) + ": " + what);
  };
  if (size < first_bytes || size > MEGACONV_MAX_STRUCT_SIZE) {
    reject("must be sizeof(" + std::string(type) + "), " + std::to_string(first_bytes) + " to " +
           std::to_string(MEGACONV_MAX_STRUCT_SIZE));
  }
  const auto* const bytes = reinterpret_cast<const unsigned char*>(given);
  for (std::size_t i = sizeof(T); i < size; ++i) {
    if (bytes[i] == 0) continue;
    reject("byte " + std::to_string(i) + " is " + std::to_string(bytes[i]) +
           ", must be 0: this library knows " + std::to_string(sizeof(T)) + " bytes");
  }
  return size;
}

/// The caller's struct in this library's version: what it does not have is zero. Throws like
/// check_struct_size().
template <class T>
T read_struct(const T* given, std::size_t first_bytes, const char* type) {
  const std::size_t size = check_struct_size(given, first_bytes, type);
  T value{};
  std::memcpy(&value, given, std::min(size, sizeof(T)));
  value.struct_size = sizeof(T);
  return value;
}

/// Fills the caller's struct, whose struct_size is set and stays. Throws like check_struct_size();
/// also Error(invalid_argument) when a field that the caller does not have is not zero in `value`.
/// It has then written nothing.
template <class T>
void write_struct(T value, T* to, std::size_t first_bytes, const char* type) {
  value.struct_size = check_struct_size(to, first_bytes, type);
  const auto* const bytes = reinterpret_cast<const unsigned char*>(&value);
  const std::size_t known = std::min(value.struct_size, sizeof(T));
  for (std::size_t i = known; i < sizeof(T); ++i) {
    if (bytes[i] == 0) continue;
    throw Error(Status::invalid_argument,
                std::string(type) + ".struct_size = " + std::to_string(known) + ": must be " +
                    std::to_string(sizeof(T)) + " for a value with fields of a newer header");
  }
  std::memcpy(static_cast<void*>(to), &value, known);
}

}  // namespace megaconv

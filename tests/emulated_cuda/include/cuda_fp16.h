// SPDX-License-Identifier: Apache-2.0
// In the place of CUDA's.
#pragma once

#include <cmath>

using __half = _Float16;
struct alignas(4) __half2 {
  __half x, y;
};
struct alignas(8) float2 {
  float x, y;
};

inline __half2 __floats2half2_rn(float first, float second) {
  return {static_cast<__half>(first), static_cast<__half>(second)};
}
inline float2 __half22float2(__half2 pair) {
  return {static_cast<float>(pair.x), static_cast<float>(pair.y)};
}
inline __half __low2half(__half2 pair) { return pair.x; }
inline __half __high2half(__half2 pair) { return pair.y; }
inline __half __float2half_rn(float number) { return static_cast<__half>(number); }
inline float __low2float(__half2 pair) { return static_cast<float>(pair.x); }
inline float __high2float(__half2 pair) { return static_cast<float>(pair.y); }
inline __half2 __habs2(__half2 pair) {
  return __floats2half2_rn(std::fabs(__low2float(pair)), std::fabs(__high2float(pair)));
}
/// The other one, if one is a NaN.
inline __half2 __hmax2(__half2 a, __half2 b) {
  return __floats2half2_rn(std::fmax(__low2float(a), __low2float(b)),
                           std::fmax(__high2float(a), __high2float(b)));
}
/// A NaN, if one is.
inline __half2 __hmax2_nan(__half2 a, __half2 b) {
  const auto most = [](float x, float y) { return x != x || y != y ? x + y : std::fmax(x, y); };
  return __floats2half2_rn(most(__low2float(a), __low2float(b)),
                           most(__high2float(a), __high2float(b)));
}
inline __half2 __hmin2_nan(__half2 a, __half2 b) {
  const auto least = [](float x, float y) { return x != x || y != y ? x + y : std::fmin(x, y); };
  return __floats2half2_rn(least(__low2float(a), __low2float(b)),
                           least(__high2float(a), __high2float(b)));
}
inline __half2 __hmul2(__half2 a, __half2 b) {
  return __floats2half2_rn(__low2float(a) * __low2float(b), __high2float(a) * __high2float(b));
}

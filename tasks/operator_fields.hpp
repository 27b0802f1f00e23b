// SPDX-License-Identifier: Apache-2.0
// Fields that operators of several rooms have in files.
#pragma once

namespace megaconv {

/// f(name, field) for each.
template <class Fields, class Operator>
void describe_window(Fields& f, Operator& a) {
  f("r", a.r);
  f("s", a.s);
  f("pad_h", a.pad_h);
  f("pad_w", a.pad_w);
  f("stride_h", a.stride_h);
  f("stride_w", a.stride_w);
}

}  // namespace megaconv

// SPDX-License-Identifier: Apache-2.0
// In a build without protobuf.
#include "megaconv/error.hpp"
#include "megaconv/onnx.hpp"

namespace megaconv {
namespace {

[[noreturn]] void refuse() {
  throw Error(Status::unsupported,
              "this build reads no ONNX models: build it where protobuf is (packages "
              "libprotobuf-dev protobuf-compiler)");
}

}  // namespace

bool reads_onnx() noexcept { return false; }
Network read_onnx(const std::string&, const OnnxOptions&) { refuse(); }
Network parse_onnx(std::string_view, const OnnxOptions&) { refuse(); }

}  // namespace megaconv

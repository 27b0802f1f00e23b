// SPDX-License-Identifier: Apache-2.0
#include "tools/peers/cudnn_library.hpp"

#include <dlfcn.h>

#include <string>

#include "megaconv/error.hpp"

namespace megaconv::cli::cudnn {
namespace {

[[noreturn]] void refuse(const char* why) {
  throw Error(Status::unsupported, std::string("--peer cudnn: ") + why);
}

// Where the loader finds it, else where the build found it. Never unloaded: it has threads.
void* library() {
  static void* const handle = [] {
    void* const found = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
    return found != nullptr ? found : dlopen(MEGACONV_CUDNN_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  }();
  if (handle == nullptr) refuse("cannot load libcudnn.so.9 or " MEGACONV_CUDNN_LIBRARY);
  return handle;
}

}  // namespace

void* loaded_symbol(const char* name) {
  void* const symbol = dlsym(library(), name);
  if (symbol == nullptr) refuse(dlerror());
  return symbol;
}

}  // namespace megaconv::cli::cudnn

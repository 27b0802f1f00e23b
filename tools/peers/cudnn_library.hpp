// SPDX-License-Identifier: Apache-2.0
// cuDNN's functions. The library is loaded when the first of them is called, so a user who does not
// ask for this peer needs no cuDNN. Included by cudnn.hpp, in whose namespace these names hide
// those of cudnn.h.
#pragma once

#include <cudnn.h>

namespace megaconv::cli::cudnn {

/// The address of a function of libcudnn.so.9. Throws Error(unsupported), naming the library and
/// what the system says, when it cannot be loaded or has no such function.
void* loaded_symbol(const char* name);

template <class Function>
struct Loaded {
  const char* name;
  template <class... Arguments>
  auto operator()(Arguments... arguments) const {
    return reinterpret_cast<Function*>(loaded_symbol(name))(arguments...);
  }
};

#define MEGACONV_LOADED(function) \
  inline constexpr Loaded<decltype(::function)> function { #function }
MEGACONV_LOADED(cudnnBackendCreateDescriptor);
MEGACONV_LOADED(cudnnBackendDestroyDescriptor);
MEGACONV_LOADED(cudnnBackendExecute);
MEGACONV_LOADED(cudnnBackendFinalize);
MEGACONV_LOADED(cudnnBackendGetAttribute);
MEGACONV_LOADED(cudnnBackendSetAttribute);
MEGACONV_LOADED(cudnnConvolutionForward);
MEGACONV_LOADED(cudnnCreate);
MEGACONV_LOADED(cudnnCreateConvolutionDescriptor);
MEGACONV_LOADED(cudnnCreateFilterDescriptor);
MEGACONV_LOADED(cudnnCreateTensorDescriptor);
MEGACONV_LOADED(cudnnDestroy);
MEGACONV_LOADED(cudnnDestroyConvolutionDescriptor);
MEGACONV_LOADED(cudnnDestroyFilterDescriptor);
MEGACONV_LOADED(cudnnDestroyTensorDescriptor);
MEGACONV_LOADED(cudnnGetConvolutionForwardWorkspaceSize);
MEGACONV_LOADED(cudnnGetErrorString);
MEGACONV_LOADED(cudnnGetLastErrorString);
MEGACONV_LOADED(cudnnGetVersion);
MEGACONV_LOADED(cudnnSetConvolution2dDescriptor);
MEGACONV_LOADED(cudnnSetConvolutionGroupCount);
MEGACONV_LOADED(cudnnSetConvolutionMathType);
MEGACONV_LOADED(cudnnSetFilter4dDescriptor);
MEGACONV_LOADED(cudnnSetStream);
MEGACONV_LOADED(cudnnSetTensor4dDescriptor);
#undef MEGACONV_LOADED

}  // namespace megaconv::cli::cudnn

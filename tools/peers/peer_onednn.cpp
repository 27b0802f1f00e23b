// SPDX-License-Identifier: Apache-2.0
// Every memory descriptor is left to oneDNN (format_tag::any), so that it computes in its blocked
// layouts; reorders into them are not timed. 2.6 is the last series with Winograd on x86.
#include "tools/peers/peer_onednn.hpp"

#include <omp.h>

#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

#include "tasks/strides.hpp"

namespace megaconv::cli {
namespace {

using Dims = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;
using DnnlType = dnnl::memory::data_type;

DnnlType dnnl_type(DataType dtype) {
  return dtype == DataType::f16    ? DnnlType::f16
         : dtype == DataType::bf16 ? DnnlType::bf16
         : dtype == DataType::i8   ? DnnlType::s8
                                   : DnnlType::f32;
}

/// One convolution primitive with its memories.
struct Convolution {
  dnnl::engine engine;
  dnnl::stream stream;
  dnnl::convolution_forward primitive;
  dnnl::memory user_w, plain_w, w,
      y;  // the caller's filters, those in OIHW, those it computes with
  dnnl::memory::desc user_y;
  std::unordered_map<int, dnnl::memory> arguments;
  std::vector<Buffer> buffers;  // what the memories own: the same kind of pages as ours
};

dnnl::memory allocate(Convolution& convolution, const dnnl::memory::desc& desc) {
  convolution.buffers.emplace_back(cpu_device(), desc.get_size());
  return {desc, convolution.engine, convolution.buffers.back().data()};
}

dnnl::memory reordered(Convolution& convolution, dnnl::memory source,
                       const dnnl::memory::desc& wanted) {
  dnnl::memory target = allocate(convolution, wanted);
  dnnl::reorder(source, target).execute(convolution.stream, source, target);
  dnnl::stream(convolution.stream).wait();
  return target;
}

/// Copies floats of [n][c][pixels] from one order to another.
void reorder_floats(const void* from, const Strides& from_strides, void* to,
                    const Strides& to_strides, const Dims& dims) {
  for (std::int64_t n = 0; n < dims[0]; ++n) {
    for (std::int64_t c = 0; c < dims[1]; ++c) {
      for (std::int64_t pixel = 0; pixel < dims[2] * dims[3]; ++pixel) {
        static_cast<float*>(to)[to_strides.at(n, c, pixel)] =
            static_cast<const float*>(from)[from_strides.at(n, c, pixel)];
      }
    }
  }
}

Strides strides_of(Layout layout, const Dims& dims) {
  return megaconv::strides_of(layout, dims[0], dims[1], dims[2] * dims[3]);
}

/// A vector of the epilogue, as floats.
std::vector<float> vector_of(const TensorSet& tensors, const Buffer& buffer) {
  std::vector<float> values(static_cast<std::size_t>(tensors.problem.k));
  for (std::size_t k = 0; k < values.size(); ++k) {
    values[k] = number_at(*tensors.device, tensors.problem.vector_type(), buffer.data(),
                          static_cast<std::int64_t>(k));
  }
  return values;
}

/// oneDNN scales the sum with its bias: s (x * w + b / s).
dnnl::memory bias_before_scale(Convolution& convolution, const TensorSet& tensors,
                               const dnnl::memory::desc& desc) {
  const std::vector<float> scale = vector_of(tensors, tensors.scale);
  const std::vector<float> bias = vector_of(tensors, tensors.bias);
  dnnl::memory divided = allocate(convolution, desc);
  auto* const values = static_cast<float*>(divided.get_data_handle());
  for (std::size_t k = 0; k < bias.size(); ++k) values[k] = bias[k] / scale[k];
  return divided;
}

/// `name` receives what oneDNN calls the implementation.
std::shared_ptr<Convolution> make_convolution(const TensorSet& tensors, dnnl::algorithm algorithm,
                                              std::string& name) {
  const ConvProblem& p = tensors.problem;
  auto made = std::make_shared<Convolution>();
  made->engine = dnnl::engine(dnnl::engine::kind::cpu, 0);
  made->stream = dnnl::stream(made->engine);

  const DnnlType type = dnnl_type(p.dtype);
  const auto any_layout = [&](const Dims& dims) {
    return dnnl::memory::desc(dims, type, Tag::any);
  };
  const auto view = [&](const Dims& dims, Tag tag, const Buffer& buffer) {
    return dnnl::memory({dims, type, tag}, made->engine, buffer.data());
  };
  const bool nhwc = p.layout == Layout::nhwc, grouped = p.groups > 1;
  const bool blocked = p.layout == Layout::nchw16c;  // oneDNN's blocks are padded: goes by NCHW
  const Tag data_tag = nhwc ? Tag::nhwc : Tag::nchw;
  const Tag plain_tag = grouped ? Tag::goihw : Tag::oihw;
  const Tag filter_tag = !nhwc ? plain_tag : grouped ? Tag::gohwi : Tag::ohwi;
  const Dims x_dims = {p.n, p.c, p.h, p.w};
  const Dims w_dims =
      grouped ? Dims{p.groups, p.k / p.groups, p.c / p.groups, p.r, p.s} : Dims{p.k, p.c, p.r, p.s};
  const Dims y_dims = {p.n, p.k, p.p(), p.q()};
  made->user_y = {y_dims, type, data_tag};

  const auto activations = [&](const Dims& dims, const Buffer& buffer) {
    if (!blocked) return view(dims, data_tag, buffer);
    const dnnl::memory plain = allocate(*made, {dims, type, data_tag});
    reorder_floats(buffer.data(), strides_of(p.layout, dims), plain.get_data_handle(),
                   strides_of(Layout::nchw, dims), dims);
    return plain;
  };

  const Dims strides = {p.stride_h, p.stride_w};
  const Dims dilations = {p.dilation_h - 1, p.dilation_w - 1};
  const Dims padding = {p.pad_h, p.pad_w};
  const DnnlType bias_type = p.epilogue.scale ? DnnlType::f32 : dnnl_type(p.vector_type());
  const dnnl::memory::desc bias =
      p.epilogue.bias ? dnnl::memory::desc({p.k}, bias_type, Tag::x) : dnnl::memory::desc();
  const dnnl::convolution_forward::desc wanted(
      dnnl::prop_kind::forward_inference, algorithm, any_layout(x_dims), any_layout(w_dims), bias,
      any_layout(y_dims), strides, dilations, padding, padding);

  dnnl::post_ops epilogue;
  if (p.epilogue.residual) {
    epilogue.append_binary(dnnl::algorithm::binary_add, any_layout(y_dims));
  }
  const auto [function, alpha, beta] = p.epilogue.activation;
  switch (function) {
    case ActivationFunction::none:
      break;
    case ActivationFunction::relu:
    case ActivationFunction::leaky_relu:
      epilogue.append_eltwise(1, dnnl::algorithm::eltwise_relu, alpha, 0);
      break;
    case ActivationFunction::clamp:
      epilogue.append_eltwise(1, dnnl::algorithm::eltwise_clip, alpha, beta);
      break;
    case ActivationFunction::sigmoid:
      epilogue.append_eltwise(1, dnnl::algorithm::eltwise_logistic, 0, 0);
      break;
    case ActivationFunction::hard_sigmoid:
      epilogue.append_eltwise(1, dnnl::algorithm::eltwise_linear, alpha, beta);
      epilogue.append_eltwise(1, dnnl::algorithm::eltwise_clip, 0, 1);
      break;
    case ActivationFunction::silu:
      epilogue.append_eltwise(1, dnnl::algorithm::eltwise_swish, 1, 0);
      break;
    case ActivationFunction::hard_swish:
      epilogue.append_eltwise(1, dnnl::algorithm::eltwise_hardswish, 0, 0);
      break;
    case ActivationFunction::gelu:
      epilogue.append_eltwise(1, dnnl::algorithm::eltwise_gelu_erf, 0, 0);
      break;
    case ActivationFunction::gelu_tanh:
      epilogue.append_eltwise(1, dnnl::algorithm::eltwise_gelu_tanh, 0, 0);
      break;
  }
  dnnl::primitive_attr attributes;
  attributes.set_post_ops(epilogue);
  if (p.epilogue.scale) {
    constexpr int kByChannel = 1 << 1;
    attributes.set_output_scales(kByChannel, vector_of(tensors, tensors.scale));
  }
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);

  const dnnl::convolution_forward::primitive_desc chosen(wanted, attributes, made->engine);
  name = chosen.impl_info_str();
  made->primitive = dnnl::convolution_forward(chosen);
  made->user_w = view(w_dims, filter_tag, tensors.w);
  // oneDNN transforms filters for Winograd from OIHW only.
  made->plain_w = nhwc ? reordered(*made, made->user_w, {w_dims, type, plain_tag}) : made->user_w;
  made->w = reordered(*made, made->plain_w, chosen.weights_desc());
  made->y = allocate(*made, chosen.dst_desc());
  made->arguments = {
      {DNNL_ARG_SRC, reordered(*made, activations(x_dims, tensors.x), chosen.src_desc())},
      {DNNL_ARG_WEIGHTS, made->w},
      {DNNL_ARG_DST, made->y},
      {DNNL_ARG_SCRATCHPAD, allocate(*made, chosen.scratchpad_desc())}};
  if (p.epilogue.bias) {
    made->arguments[DNNL_ARG_BIAS] = p.epilogue.scale
                                         ? bias_before_scale(*made, tensors, bias)
                                         : dnnl::memory(bias, made->engine, tensors.bias.data());
  }
  if (p.epilogue.residual) {
    made->arguments[DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1] =
        reordered(*made, activations(y_dims, tensors.residual), chosen.dst_desc());
  }
  return made;
}

}  // namespace

std::vector<PeerVariant> make_onednn_variants(const TensorSet& tensors,
                                              const PeerOptions& options) {
  omp_set_num_threads(static_cast<int>(options.threads));
  std::vector<PeerVariant> variants;
  for (const auto& [name, algorithm] :
       {std::pair{"direct", dnnl::algorithm::convolution_direct},
        std::pair{"winograd", dnnl::algorithm::convolution_winograd}}) {
    PeerVariant variant{.algorithm = {.name = name}};
    std::string implementation;
    std::shared_ptr<Convolution> made;
    try {
      made = make_convolution(tensors, algorithm, implementation);
    } catch (const dnnl::error& error) {
      if (error.status != dnnl_unimplemented) throw;
      variant.algorithm.obstacle = std::string("not implemented for this problem in ") +
                                   to_string(tensors.problem.dtype) + " on this CPU";
      variants.push_back(std::move(variant));
      continue;
    }
    variant.algorithm.name += ", " + implementation;
    if (!options.may_run(variant.algorithm.name)) continue;
    const bool every_run = options.filters == FilterMode::every_run;
    const bool nhwc = tensors.problem.layout == Layout::nhwc;
    const dnnl::reorder to_plain(made->user_w, made->plain_w), to_wanted(made->plain_w, made->w);
    const auto run = [made, every_run, nhwc, to_plain, to_wanted](void*) {
      if (every_run && nhwc) to_plain.execute(made->stream, made->user_w, made->plain_w);
      if (every_run) to_wanted.execute(made->stream, made->plain_w, made->w);
      made->primitive.execute(made->stream, made->arguments);
    };
    const auto wait = [made](void*) { made->stream.wait(); };
    variant.sample_ms = cpu_device().clock({run, wait}, options.caches);
    variant.compute = [made, run, wait, layout = tensors.problem.layout, y = tensors.y.data()] {
      run(nullptr);
      const bool blocked = layout == Layout::nchw16c;
      dnnl::memory target = blocked ? dnnl::memory(made->user_y, made->engine)
                                    : dnnl::memory(made->user_y, made->engine, y);
      dnnl::reorder(made->y, target).execute(made->stream, made->y, target);
      wait(nullptr);
      if (!blocked) return;
      const Dims dims = made->user_y.dims();
      reorder_floats(target.get_data_handle(), strides_of(Layout::nchw, dims), y,
                     strides_of(layout, dims), dims);
    };
    variants.push_back(std::move(variant));
  }
  return variants;
}

std::string onednn_version() {
  const dnnl_version_t* const version = dnnl_version();
  return std::to_string(version->major) + '.' + std::to_string(version->minor) + '.' +
         std::to_string(version->patch);
}

}  // namespace megaconv::cli

// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/tensor_arguments.hpp"

#include "runtime/cuda/tensor_map.hpp"
#include "tasks/implicit_gemm/implicit_gemm.hpp"

namespace megaconv::cuda {

void add_pointers(TaskArgs& args, const Tensors& tensors, std::byte* workspace,
                  const DeviceWorkspace& layout) {
  const auto at = [workspace](std::size_t offset) {
    return reinterpret_cast<float*>(workspace + offset);
  };
  args.x = static_cast<const float*>(tensors.x);
  args.w = tensors.prepared_filters != nullptr ? nullptr : static_cast<const float*>(tensors.w);
  args.scale = static_cast<const float*>(tensors.scale);
  args.bias = static_cast<const float*>(tensors.bias);
  args.residual = static_cast<const float*>(tensors.residual);
  args.y = static_cast<float*>(tensors.y);
  args.v = at(layout.v);
  args.m = at(layout.m);
  args.x_footer = reinterpret_cast<OperandFooter*>(workspace + layout.footer);
  args.x_magnitudes = reinterpret_cast<std::uint32_t*>(workspace + layout.footer) + kFooterNumbers;
  args.u = tensors.prepared_filters != nullptr
               ? const_cast<float*>(static_cast<const float*>(tensors.prepared_filters))
               : at(layout.u);
  if (args.depth.channels != 0) args.multiply_copy();
}

namespace {

// What TMA loads as x: the tensor, or a copy of it.
Pixels pixels_of(const TaskArgs& args, const ConvProblem& problem, Operands operands,
                 Elements elements) {
  Pixels pixels{.x = args.x,
                .channels = problem.c,
                .pitch = problem.c,
                .row_pixels = problem.w,
                .elements = elements};
  if (operands == Operands::in_copy) {  // in whole K blocks of channels
    pixels.x = args.v;
    pixels.channels = pixels.pitch = args.c_padded;
  }
  if (args.depth.channels != 0) {
    pixels.pitch = args.depth.channels;
    pixels.row_pixels = args.depth.cols;
  }
  return pixels;
}

}  // namespace

void add_tensor_maps(TaskArgs& args, const Tensors& tensors, const ConvProblem& problem,
                     const KernelSet& kernels) {
  const Operands operands = kernels.operands;
  const bool stored = are_tensors(operands);
  const Elements elements = have_floats(operands) ? Elements::f32_rounded_to_tf32
                            : stored              ? elements_of(problem)
                                                  : Elements::f16;
  const Pixels pixels =
      pixels_of(args, problem, operands, are_converted(operands) ? Elements::f32 : elements);
  if (args.stripes.images > 1) {
    args.x_tensors[0] = abreast_tensor(problem, pixels, args.stripes, args.k_block_channels,
                                       args.input_places / args.stripes.row());
  } else {
    // Blocks of a cluster load a share each.
    const int places =
        operands == Operands::converted ? kPiecePlaces : args.input_places / args.cluster_blocks;
    const int channels = are_converted(operands) ? kPieceChannels : args.k_block_channels;
    for (int stripe = 0; stripe * args.stripes.cols < args.q; ++stripe) {
      args.x_tensors[stripe] =
          pixel_tensor(problem, pixels, args.stripes, stripe, channels, places);
    }
  }
  const bool as_it_is = kernels.filters_in_place && tensors.prepared_filters == nullptr;
  const int numbers = operands == Operands::split_tall ? 2 : 1;  // of a channel
  args.w_tensor =
      filter_tensor(problem, as_it_is ? tensors.w : args.u,
                    numbers * (stored && problem.groups == 1 ? problem.c : args.c_padded), elements,
                    numbers * args.k_block_channels, args.gemm_filters);
  if (tensors.residual != nullptr) {
    check_whole_octets("residual", tensors.residual);
    if (args.in_order) {
      args.residual_tensor =
          output_tensor("residual", problem, tensors.residual, args.output_cols, args.in_order);
    }
  }
  // Only some y can be stored by vectors. Of 16 bits, it must begin with one where it could.
  constexpr std::size_t kVector = 16;
  const bool begins = reinterpret_cast<std::uintptr_t>(tensors.y) % kVector == 0;
  if (!args.pools && stores_vectors(problem) && (begins || problem.dtype != DataType::f32)) {
    args.y_tensor = output_tensor("y", problem, tensors.y, args.output_cols, args.in_order);
  } else {
    args.output_cols = 0;
  }
}

void add_box_map(TaskArgs& args, const ConvProblem& problem) {
  constexpr std::uintptr_t kVector = 16;
  if (reinterpret_cast<std::uintptr_t>(args.x) % kVector != 0) return;
  const DepthwiseBox box =
      depthwise_box(args.r, args.stride_h, args.rows_per_group, args.cols_per_group,
                    args.filters_per_gemm_task, static_cast<int>(size_of(problem.dtype)));
  args.x_tensors[0] = box_tensor(problem, args.x, box);
}

}  // namespace megaconv::cuda

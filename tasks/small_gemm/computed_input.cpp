// SPDX-License-Identifier: Apache-2.0
#include "tasks/small_gemm/computed_input.hpp"

#include <cstring>
#include <limits>
#include <vector>

#include "megaconv/lowering.hpp"
#include "tasks/checks.hpp"
#include "tasks/regions.hpp"
#include "tasks/small_gemm/filter_places.hpp"
#include "tasks/storage.hpp"
#include "tasks/strides.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {
namespace {

constexpr std::int64_t kChannelVector = 8;

bool is_pixelwise(const ConvProblem& a) {
  return a.r == 1 && a.s == 1 && a.stride_h == 1 && a.stride_w == 1 && a.p() == a.h &&
         a.q() == a.w && a.groups == 1;
}

// Whether one reads what the other makes, and both have vectors of channels.
bool follow(const ConvProblem& a, const ConvProblem& next) {
  constexpr std::int64_t kMostOfImage = std::numeric_limits<std::int32_t>::max();
  return a.layout == Layout::nhwc && next.layout == Layout::nhwc && a.dtype == next.dtype &&
         a.n == next.n && a.k == next.c && a.p() == next.h && a.q() == next.w &&
         a.c % kChannelVector == 0 && next.c % kChannelVector == 0 && !a.epilogue.residual &&
         !a.epilogue.scale && a.h * a.w * a.c <= kMostOfImage;
}

}  // namespace

bool can_compute_input(const ConvProblem& a, const ConvProblem& reader) {
  const bool is_window = (a.r == 3 || a.r == 5) && a.s == a.r;  // there is code for these
  return is_window && a.depthwise() && a.dilation_h == 1 && a.dilation_w == 1 &&
         is_pixelwise(reader) && follow(a, reader);
}
bool can_expand(const ConvProblem& expand, const ConvProblem& depthwise) {
  constexpr std::int64_t kMostChannels = 2048;  // every piece of a pixel has a thread
  return is_pixelwise(expand) && follow(expand, depthwise) && expand.c <= kMostChannels;
}

const ConvProblem& first_problem(const SmallGemmCut& cut) {
  return cut.expand ? *cut.expand : cut.depthwise ? *cut.depthwise : cut.problem;
}

std::int64_t expand_steps(const ConvProblem& expand) { return ceil_div(expand.c, kStepNumbers); }

std::int64_t expand_filter_bytes(const SmallGemmCut& cut, const SumSteps& steps) {
  if (!cut.expand) return 0;
  return steps.chunks * kStepNumbers * expand_steps(*cut.expand) * kStepBytes * parts_of(cut);
}

std::int64_t num_input_vectors(const SmallGemmCut& cut) {
  if (!cut.depthwise) return 0;
  return cut.depthwise->r * cut.depthwise->s + 1 + (cut.expand ? 2 : 0);
}
std::int64_t input_vector_bytes(const SmallGemmCut& cut, const SumSteps& steps) {
  return num_input_vectors(cut) * steps.chunks * kStepNumbers * std::int64_t{sizeof(float)};
}

ComputedInputMemory computed_input_memory(const SmallGemmCut& cut, const SumSteps& steps) {
  ComputedInputMemory memory;
  if (!cut.depthwise || !cut.expand) return memory;
  const auto reach = [](std::int64_t outputs, std::int64_t stride, std::int64_t taps) {
    return (outputs - 1) * stride + taps;
  };
  const ConvProblem& a = *cut.depthwise;
  memory.magnitudes = SmallGemmCut::kWarps * std::int64_t{sizeof(std::uint32_t)};
  memory.in_rows = reach(computed_rows(cut), a.stride_h, a.r);
  memory.in_cols = reach(computed_cols(cut), a.stride_w, a.s);
  constexpr std::int64_t kAlignment = 16;
  const std::int64_t pixels = memory.pixels(), chunks = expand_steps(*cut.expand);
  memory.inside = ceil_div(pixels, kAlignment) * kAlignment;
  // Neighbouring pixels 64 bytes apart in the banks, as a matrix instruction wants them.
  memory.x_pitch = (chunks + (chunks % 2 == 0)) * kStepBytes;
  memory.x_part = pixels * memory.x_pitch;
  memory.x = memory.x_part * parts_of(cut);
  const auto element = static_cast<std::int64_t>(size_of(a.dtype));
  memory.e_pitch = steps.chunks * kStepNumbers * element + kAlignment;  // in other banks
  memory.e = pixels * memory.e_pitch;
  return memory;
}

namespace {

std::vector<float> floats_of(DataType dtype, const std::byte* numbers, std::int64_t count) {
  std::vector<float> floats(u64(count));
  with_storage(dtype, [&](auto number) {
    const auto* const from = reinterpret_cast<const decltype(number)*>(numbers);
    for (std::size_t i = 0; i < floats.size() && from != nullptr; ++i)
      floats[i] = to_float(from[i]);
  });
  return floats;
}

// Vectors [C] in their order, one behind the other.
std::vector<float> input_vectors(const SmallGemmCut& cut, const ConvNumbers& depthwise,
                                 const ConvNumbers& expand, const std::vector<float>& scales) {
  const ConvProblem& a = *cut.depthwise;
  const Strides from = w_strides(a);
  const std::vector<float> w = floats_of(a.dtype, depthwise.w, a.w_size());
  std::vector<float> vectors;
  for (std::int64_t tap = 0; tap < a.r * a.s; ++tap) {
    for (std::int64_t c = 0; c < a.c; ++c) {
      vectors.push_back(w[u64(c * from.image + tap * from.pixel)]);
    }
  }
  const auto add = [&](const std::vector<float>& vector) {
    vectors.insert(vectors.end(), vector.begin(), vector.end());
  };
  add(floats_of(a.dtype, depthwise.bias, a.k));
  if (!cut.expand) return vectors;
  add(floats_of(a.dtype, expand.bias, a.k));
  for (const float scale : scales) vectors.push_back(1 / scale);
  return vectors;
}

}  // namespace

void pack_computed_input(const SmallGemmCut& cut, const ConvNumbers& depthwise,
                         const ConvNumbers& expand, std::byte* u) {
  const SumSteps sum = steps_of(cut);
  const FilterPlaces places(cut);
  const std::int64_t block_channels = sum.chunks * kStepNumbers, c = cut.problem.c;
  const std::int64_t filter_bytes = memory_of(cut).filter_bytes;
  const std::int64_t own_bytes =
      filter_bytes - expand_filter_bytes(cut, sum) - input_vector_bytes(cut, sum);
  std::vector<float> scales(u64(c), 1);
  for (std::int64_t k = 0; cut.expand && converts(cut) && k < c; ++k) {
    const auto* const filter = reinterpret_cast<const float*>(expand.w) + k * cut.expand->c;
    scales[u64(k)] = filter_scale(filter, cut.expand->c);
  }
  const std::vector<float> vectors = input_vectors(cut, depthwise, expand, scales);
  // Bits of what a channel of e takes of a number of x.
  const auto bits_of = [&](std::int64_t channel, std::int64_t from, bool rest) -> std::uint16_t {
    if (channel >= c || from >= cut.expand->c) return 0;
    const std::int64_t at = channel * cut.expand->c + from;
    if (!converts(cut)) return reinterpret_cast<const std::uint16_t*>(expand.w)[at];
    return half_of(reinterpret_cast<const float*>(expand.w)[at] * scales[u64(channel)], rest);
  };
  for (std::int64_t block = 0; block < places.num_blocks * places.k_blocks; ++block) {
    std::byte* to = u + block * filter_bytes + own_bytes;
    const auto put = [&](auto number) {
      std::memcpy(to, &number, sizeof number);
      to += sizeof number;
    };
    const std::int64_t first = block % places.k_blocks * block_channels;
    for (std::int64_t tile = 0; cut.expand && tile < block_channels; tile += kExpandTile) {
      for (std::int64_t step = 0; step < expand_steps(*cut.expand); ++step) {
        for (std::int64_t part = 0; part < parts_of(cut); ++part) {
          for (std::int64_t i = 0; i < kExpandTile * kStepNumbers; ++i) {
            put(bits_of(first + tile + i / kStepNumbers, step * kStepNumbers + i % kStepNumbers,
                        part == 1));
          }
        }
      }
    }
    for (std::int64_t vector = 0; vector < num_input_vectors(cut); ++vector) {
      for (std::int64_t channel = first; channel < first + block_channels; ++channel) {
        put(channel < c ? vectors[u64(vector * c + channel)] : 0.0f);
      }
    }
  }
}

NodeBuffers add_in_reader(TaskGraph& graph, const std::string& name, const InReaderCut& cut,
                          const NodeBuffers& read) {
  validate(cut.problem);
  NodeBuffers buffers = read;
  buffers.y = static_cast<BufferId>(graph.buffers.size());
  graph.nodes.push_back(name);
  graph.buffers.push_back({.name = name + ".y", .extent = y_extent(cut.problem), .bytes = 0});
  graph.accesses.emplace_back();  // of no task
  return buffers;
}

}  // namespace megaconv

// SPDX-License-Identifier: Apache-2.0
// A group of implicit GEMM has a run of padded pixels of a stripe. Only those that are outputs are
// written.
#include <algorithm>

#include "tasks/conv_graph.hpp"
#include "tasks/implicit_gemm/implicit_gemm.hpp"
#include "tasks/regions.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {
namespace {

class Accesses {
 public:
  Accesses(const Tiling& tiling, const NodeBuffers& buffers)
      : tiling_(tiling),
        cut_(std::get<ImplicitGemmCut>(tiling.cut)),
        multiplied_(multiplied_problem(tiling.problem, cut_.operands)),
        buffers_(buffers),
        stripes_(make_stripes(multiplied_, static_cast<std::int32_t>(cut_.cols_per_group))),
        places_(u64(places_of_stripe(multiplied_, stripes_))),
        stripe_groups_(ceil_div(places_, std::uint64_t{cut_.places_per_group})) {
    if (cut_.pools) buffers_.y = buffers.second;
  }

  void operator()(Role role, std::uint32_t group, std::uint32_t block,
                  std::vector<Access>& accesses) const {
    if (role == Role::prepare) {
      append_filter_task(tiling_, buffers_, block, accesses);
    } else if (role == Role::input) {
      list_copy(group, block, accesses);
    } else {
      list_product(group, block, accesses);
    }
  }

 private:
  // Copies are dealt out to the groups in the order of pixels; the last tasks may have none.
  void list_copy(std::uint32_t group, std::uint32_t block, std::vector<Access>& accesses) const {
    const InputCopy copy = input_copy(tiling_);
    const std::uint64_t index = std::uint64_t{group} * tiling_.input_tasks + block;
    const std::uint64_t chunks = ceil_div(copy.blocks, copy.blocks_of_task);
    const std::uint64_t first = std::min(index / chunks * copy.pixels_of_task, copy.pixels);
    const std::uint64_t channel = index % chunks * copy.blocks_of_task;
    accesses.push_back({buffers_.x, Mode::read, x_extent(tiling_.problem)});
    accesses.push_back(
        {buffers_.v,
         Mode::write,
         {.rows = {first, std::min(first + copy.pixels_of_task, copy.pixels)},
          .channels = {channel, std::min(channel + copy.blocks_of_task, copy.blocks)}}});
  }

  void list_product(std::uint32_t group, std::uint32_t block, std::vector<Access>& accesses) const {
    accesses.push_back({buffers_.u, Mode::read, u_extent(tiling_)});
    if (buffers_.v != kNoBuffer) {  // of the copy all tasks need all: several groups share pixels
      accesses.push_back({buffers_.v, Mode::read, input_copy(tiling_).extent()});
    }
    const std::uint64_t stripe = group / stripe_groups_;
    const std::uint64_t first = group % stripe_groups_ * cut_.places_per_group;
    const Interval run{first, std::min(first + cut_.places_per_group, places_)};
    std::vector<Region> boxes;
    stripes_.images > 1 ? append_abreast(stripe, run, boxes) : append_stripe(stripe, run, boxes);
    const std::uint64_t filters = std::uint64_t{block} * cut_.filter_blocks_per_gemm_task;
    const std::uint64_t end = std::min<std::uint64_t>(filters + cut_.filter_blocks_per_gemm_task,
                                                      tiling_.filter_blocks());
    const std::size_t first_access = accesses.size();
    append_pixels(tiling_, buffers_, boxes, channels_of_filter_blocks(tiling_, filters, end),
                  accesses);
    if (!cut_.pools) return;
    for (std::size_t i = first_access; i < accesses.size(); ++i) {
      if (accesses[i].mode != Mode::write) continue;
      accesses[i].region.rows = pooled(accesses[i].region.rows);
      accesses[i].region.cols = pooled(accesses[i].region.cols);
    }
  }
  static Interval pooled(const Interval& pixels) {
    return {pixels.begin / kPooledPixels, pixels.end / kPooledPixels};
  }

  void append_stripe(std::uint64_t stripe, const Interval& run, std::vector<Region>& boxes) const {
    const ConvProblem& a = tiling_.problem;
    const std::uint64_t first_col = stripe * u64(stripes_.cols);
    append_boxes({.points = u64(stripes_.pitch),
                  .lines = u64(stripes_.period),
                  .first_col = first_col,
                  .rows = u64(a.p()),
                  .cols = std::min(u64(stripes_.cols), u64(a.q()) - first_col),
                  .images = u64(a.n)},
                 run, boxes);
  }

  // Lines go through all images of the stripe: of each image, those of its own.
  void append_abreast(std::uint64_t stripe, const Interval& run, std::vector<Region>& boxes) const {
    const ConvProblem& a = tiling_.problem;
    const std::uint64_t abreast = u64(stripes_.images), p = u64(a.p());
    std::vector<Region> lines;  // one "image" of lines, p * abreast of them
    append_boxes({.points = u64(stripes_.pitch),
                  .lines = p * abreast,
                  .rows = p * abreast,
                  .cols = u64(a.q())},
                 run, lines);
    for (const Region& box : lines) {
      for (std::uint64_t i = 0; i < abreast; ++i) {
        const std::uint64_t image = stripe * abreast + i;
        if (image >= u64(a.n)) break;
        const auto row = [&](std::uint64_t line) {
          return line <= i ? 0 : std::min(ceil_div(line - i, abreast), p);
        };
        const Region own{.rows = {image * p + row(box.rows.begin), image * p + row(box.rows.end)},
                         .cols = box.cols};
        if (own.size() > 0) boxes.push_back(own);
      }
    }
  }

  const Tiling tiling_;
  const ImplicitGemmCut cut_;
  const ConvProblem multiplied_;
  NodeBuffers buffers_;  // y is what is stored in its place
  const Stripes stripes_;
  const std::uint64_t places_, stripe_groups_;
};

}  // namespace

AccessFunction implicit_gemm_accesses(const Tiling& tiling, const NodeBuffers& buffers) {
  return Accesses(tiling, buffers);
}

}  // namespace megaconv

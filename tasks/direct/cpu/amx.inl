// SPDX-License-Identifier: Apache-2.0
// Direct tasks on BF16 and INT8 numbers whose products are AMX's (Intel's manual, volume 1, chapter
// 18: "tiles", here registers of 16 rows of 64 bytes).
//
//   C[pixel][filter] += A[pixel][word] B[word][filter]     16 x 16 sums, up to 16 words
//
// A is read where it lies: words of neighbouring outputs' pixels, which are at one distance, from x
// (NHWC without padding, as 1x1 filters are) or from a patch that the task makes (AmxExtents).
// B is a step of U.
// Products of M pixels take M cycles; pixels are shared out evenly among registers, and the last
// ones of a line are computed twice rather than read past their end.
//
// Sapphire Rapids: four products in 19 ns, with their four loads or without; the loads alone 10.
#pragma once

#include "tasks/cpu/channel_blocks.inl"
#include "tasks/cpu/filter_transform.inl"
#include "tasks/cpu/kernels.hpp"
#include "tasks/cpu/pixels.inl"
#include "tasks/cpu/products.inl"

namespace megaconv::cpu::MEGACONV_ISA {

/// What words of U and of the patch are.
template <class T>
struct AmxWords;
template <>
struct AmxWords<Bfloat16> {
  using Type = Bf16PairProduct;
};
template <>
struct AmxWords<Int8> {
  using Type = Int8Quads;
};

/// Of a row of a register, and of a word in it.
inline constexpr Size kAmxRowBytes = 64, kWordBytes = 4;
/// Which registers a kernel has for what: sums, A, B, one behind the other. With two of filters
/// each load serves two products; with one, most of them, and what is loaded more often is x, which
/// is best where x stays in the L1, as a patch does.
template <int kMostPixels, int kMostFilters>
struct AmxRegisters {
  static constexpr int kPixels = kMostPixels, kFilters = kMostFilters;
  static constexpr int kA = kPixels * kFilters, kB = 8 - kFilters, kNumA = kB - kA;
};
using AmxSquare = AmxRegisters<2, 2>;
using AmxColumn = AmxRegisters<6, 1>;
/// Of fewer steps sums are written more often than x is loaded: two filter blocks fill more of a
/// cache line of y. n1c3h224k64r7p3u2 in BF16, 7 steps: 0.27 ms with two, 0.33 with one.
inline constexpr Size kColumnSteps = 9;

// The compiler knows nothing of these registers: nothing else uses them.
template <int kRegister>
MEGACONV_INLINE void amx_zero() {
  asm volatile("tilezero %%tmm%c0" : : "i"(kRegister));
}
template <int kRegister>
MEGACONV_INLINE void amx_load(const void* rows, Size row_bytes) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2"
               :
               : "r"(rows), "r"(row_bytes), "i"(kRegister)
               : "memory");
}
template <int kRegister>
MEGACONV_INLINE void amx_store(void* rows) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)"
               :
               : "r"(rows), "r"(kAmxRowBytes), "i"(kRegister)
               : "memory");
}
/// Sums += A B.
template <class T, int kSums, int kOfA, int kOfB>
MEGACONV_INLINE void amx_multiply_add() {
  if constexpr (sizeof(T) == 1) {
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kOfA), "i"(kOfB));
  } else {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kOfA), "i"(kOfB));
  }
}

/// The registers' shapes, while it lives. They belong to a thread, and no task may keep them: with
/// empty registers a thread is as cheap to switch as before.
class AmxShapes {
 public:
  template <class Registers>
  AmxShapes(Registers, Size pixels, Size words) {
    struct {
      std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
      std::uint16_t row_bytes[16] = {};
      std::uint8_t rows[16] = {};
    } shapes;
    for (int i = 0; i < 8; ++i) {
      const bool a = i >= Registers::kA && i < Registers::kB, b = i >= Registers::kB;
      shapes.rows[i] = static_cast<std::uint8_t>(b ? words : pixels);
      shapes.row_bytes[i] = static_cast<std::uint16_t>(a ? words * 4 : kAmxRowBytes);
    }
    asm volatile("ldtilecfg %0" : : "m"(shapes));
  }
  ~AmxShapes() { asm volatile("tilerelease"); }
  AmxShapes(const AmxShapes&) = delete;
  AmxShapes& operator=(const AmxShapes&) = delete;
};

/// What a kernel multiplies.
struct AmxArgs {
  const std::byte* x = nullptr;
  const AmxTile* tiles = nullptr;  ///< where in x
  Size pixel_bytes = 0;
  const float* u = nullptr;  ///< first filter block
  Size filter_block = 0;
  const AmxStep *begin = nullptr, *end = nullptr;
};

template <class T, class Registers, int kPixels, int kFilters>
void amx_kernel(const AmxArgs& args) {
  unroll<kPixels * kFilters>([](auto i) __attribute__((always_inline)) {
    amx_zero<i / kFilters * Registers::kFilters + i % kFilters>();
  });
  const Size pixel_bytes = args.pixel_bytes, filter_block = args.filter_block;
  const std::byte* x[kPixels];
  unroll<kPixels>([&](auto i) __attribute__((always_inline)) { x[i] = args.x + args.tiles[i].x; });
  const float* const u = args.u;
  for (const AmxStep* step = args.begin; step != args.end; ++step) {
    const float* const filters = u + step->u;
    const Size at = step->x;
    unroll<kFilters>([&](auto j) __attribute__((always_inline)) {
      amx_load<Registers::kB + j>(filters + j * filter_block, kAmxRowBytes);
    });
    unroll<kPixels>([&](auto i) __attribute__((always_inline)) {
      constexpr int kA = Registers::kA + i % Registers::kNumA;
      [[maybe_unused]] constexpr int kSums = i * Registers::kFilters;  // GCC 12 does not see it
      amx_load<kA>(x[i] + at, pixel_bytes);
      unroll<kFilters>([](auto j) __attribute__((always_inline)) {
        amx_multiply_add<T, kSums + j, kA, Registers::kB + j>();
      });
    });
  }
}

template <class T, class Registers, int kPixels = Registers::kPixels,
          int kFilters = Registers::kFilters>
MEGACONV_INLINE void multiply_tiles(const AmxArgs& args, Size num_tiles, Size num_blocks) {
  if constexpr (kFilters > 1) {
    if (num_blocks < kFilters) {
      return multiply_tiles<T, Registers, kPixels, kFilters - 1>(args, num_tiles, num_blocks);
    }
  }
  if constexpr (kPixels > 1) {
    if (num_tiles < kPixels) {
      return multiply_tiles<T, Registers, kPixels - 1, kFilters>(args, num_tiles, num_blocks);
    }
  }
  amx_kernel<T, Registers, kPixels, kFilters>(args);
}

/// Sums of a kernel.
template <class Registers>
struct alignas(64) AmxSums {
  float of[Registers::kPixels * Registers::kFilters][kAmxPixels][kBlock];

  MEGACONV_INLINE void store(Size num_tiles) {
    unroll<Registers::kPixels * Registers::kFilters>([&](auto i) __attribute__((always_inline)) {
      if (i / Registers::kFilters < num_tiles) amx_store<i>(of[i]);
    });
  }
};

/// Where the inputs of a task's outputs lie, in lines of outputs at one distance.
struct AmxLines {
  Size pixel_bytes = 0, line_bytes = 0;
  Size count = 1, outputs = 0;
  Size cols = 0;
  Size row_outputs = 0;  ///< outputs from one row to the next in a line; those past `cols` go
};

/// Outputs to a register: of all lines, evenly. Fewer than eight take as long as eight.
inline Size amx_pixels(const AmxLines& lines, bool in_pairs) {
  constexpr Size kLeast = 8;
  Size registers = ceil_div(lines.outputs, kAmxPixels);
  const bool odd = registers % 2 != 0 && lines.count % 2 != 0;
  if (in_pairs && odd && lines.outputs >= (registers + 1) * kLeast) ++registers;
  return ceil_div(lines.outputs, registers);
}

/// Lists registers of so many pixels; returns the end.
inline const AmxTile* list_amx_tiles(const AmxLines& lines, Size pixels, AmxTile* tiles) {
  for (Size line = 0; line < lines.count; ++line) {
    Size row = line, col = 0;
    for (Size begin = 0; begin < lines.outputs; begin += pixels) {
      const Size first = min_of(begin, lines.outputs - pixels);
      *tiles++ = {line * lines.line_bytes + first * lines.pixel_bytes, begin - first, row, col};
      for (col += pixels; col >= lines.row_outputs; col -= lines.row_outputs) ++row;
    }
  }
  return tiles;
}

/// Calls write(first, row, col, count) for the runs of a register's outputs that are neighbours.
template <class Write>
MEGACONV_INLINE void for_each_run(const AmxLines& lines, const AmxTile& tile, Size pixels,
                                  const Write& write) {
  Size row = tile.row, col = tile.col;
  for (Size i = tile.skip; i < pixels; ++row, col = 0) {
    const Size count = min_of(lines.cols - col, pixels - i);
    if (count > 0) write(i, row, col, count);
    i += lines.row_outputs - col;
  }
}

/// Two whole filter blocks of NHWC, which are neighbours there.
template <class T>
class PairWriter {
 public:
  PairWriter(const TaskArgs& args, const Extents& extents, Size image, Size filter)
      : parts_(parts_of(args.tiling->problem.epilogue)),
        activate_(args.tiling->problem.epilogue.activation),
        pitches_(y_pitches(args, extents)) {
    const Epilogue& epilogue = args.tiling->problem.epilogue;
    const Size first = image * pitches_.image + filter;
    y_ = static_cast<T*>(args.y) + first;
    residual_ = epilogue.residual ? static_cast<const T*>(args.residual) + first : nullptr;
    using Vector = typename VectorStorage<T>::Type;
    unroll<2>([&](auto block) __attribute__((always_inline)) {
      const Size at = filter + block * kBlock;
      scale_[block] =
          epilogue.scale ? read(static_cast<const Vector*>(args.scale) + at) : broadcast(1);
      bias_[block] = epilogue.bias ? read(static_cast<const Vector*>(args.bias) + at) : Vec{};
    });
  }

  /// Pixels of both blocks, 64 bytes apart each.
  void write_row(const float* first, const float* second, Size row, Size col, Size cols) const {
    const Size at = (row * pitches_.row + col) * pitches_.step;
    parts_ == Parts::none          ? write<Parts::none>(first, second, at, cols)
    : parts_ == Parts::no_residual ? write<Parts::no_residual>(first, second, at, cols)
                                   : write<Parts::any>(first, second, at, cols);
  }

 private:
  template <Parts kParts>
  void write(const float* first, const float* second, Size at, Size cols) const {
    const Activate activate = activate_;
    const Vec scale[] = {scale_[0], scale_[1]}, bias[] = {bias_[0], bias_[1]};
    const Size step = pitches_.step;
    const auto finished = [&](const float* words, const T* residual, int block)
        __attribute__((always_inline)) {
      if constexpr (kParts == Parts::none) return Products<T>::number(load(words));
      Vec sum = Products<T>::scaled(load(words), scale[block], bias[block]);
      if constexpr (kParts == Parts::any) sum += read(residual + block * kBlock);
      return activate(sum);
    };
    T* y = y_ + at;
    const T* residual = kParts == Parts::any ? residual_ + at : nullptr;
    if constexpr (sizeof(T) == 2) {
      for (Size i = 0; i < cols; ++i, y += step, residual += step) {
        store(y, _mm512_cvtne2ps_pbh(finished(second + i * kBlock, residual, 1),
                                     finished(first + i * kBlock, residual, 0)));
      }
    } else {
      // A pixel's filters as integers of 16 bits, in each quarter four of both blocks.
      const auto shorts = [&](Size i, const T* from) __attribute__((always_inline)) {
        const auto ints = [&](Vec v) __attribute__((always_inline)) {
          return _mm512_maskz_cvtps_epi32(kAllLanes, less_of(broadcast(127), v));
        };
        return _mm512_packs_epi32(ints(finished(first + i * kBlock, from, 0)),
                                  ints(finished(second + i * kBlock, from, 1)));
      };
      const __m512i in_order =
          _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
      for (Size i = 0; i < cols; i += 2, y += 2 * step, residual += 2 * step) {
        const bool two = i + 1 < cols;
        const __m512i bytes = _mm512_maskz_permutexvar_epi32(
            kAllLanes, in_order,
            _mm512_packs_epi16(shorts(i, residual),
                               shorts(two ? i + 1 : i, two ? residual + step : residual)));
        store(y, _mm512_maskz_extracti64x4_epi64(0xff, bytes, 0));
        if (two) store(y + step, _mm512_maskz_extracti64x4_epi64(0xff, bytes, 1));
      }
    }
  }

  Parts parts_;
  Activate activate_;
  T* y_;
  const T* residual_;
  Vec scale_[2], bias_[2];
  Pitches pitches_;
};

/// The first `bytes` of 64.
inline std::uint64_t first_bytes(Size bytes) {
  return bytes == kAmxRowBytes ? ~std::uint64_t{0} : (std::uint64_t{1} << bytes) - 1;
}

/// `count` elements of a row of x from `first` on, at most 64 bytes; zeros where there is none.
template <class T>
MEGACONV_INLINE Vec read_row_words(const T* row, Size row_size, Size first, Size count) {
  constexpr auto kElement = static_cast<Size>(sizeof(T));
  const auto below = [&](Size end) __attribute__((always_inline)) {  // bytes of elements
    return first_bytes(max_of(0, min_of(end, count)) * kElement);
  };
  const std::uint64_t mask = first >= 0 && first + count <= row_size
                                 ? below(count)
                                 : below(row_size - first) & ~below(-first);
  return __builtin_bit_cast(Vec, _mm512_maskz_loadu_epi8(mask, row + first));
}

/// The same of pixels that are not neighbours: channels of pixel `col` on, `step` elements apart.
template <class T>
MEGACONV_INLINE Vec read_pixel_words(const T* row, const ConvProblem& a, Size step, Size col,
                                     Size count) {
  alignas(kAmxRowBytes) T words[kAmxRowBytes / sizeof(T)] = {};
  for (Size i = 0; i < count; i += a.c, ++col) {
    if (col < 0 || col >= a.w) continue;
    __builtin_memcpy(words + i, row + col * step, static_cast<std::size_t>(a.c) * sizeof(T));
  }
  return __builtin_bit_cast(Vec, _mm512_load_si512(words));
}

/// Where rows of a task's input go in its patch; some are between filters and go nowhere.
struct AmxPatch {
  AmxPatch(const ConvProblem& a, const Extents& extents, const AmxExtents& amx_extents,
           const PixelRect& rect, float* words)
      : amx(amx_extents),
        patch(words),
        num_rows((rect.rows - 1) * a.stride_h + extents.extent_h),
        row(rect.row * a.stride_h - a.pad_h),
        col(rect.col * a.stride_w - a.pad_w),
        col_distance(amx.col_step == a.stride_w ? 1 : a.stride_w),
        cols(col_distance == 1 ? (rect.cols - 1) * a.stride_w + extents.extent_w - amx.shared_cols
                               : rect.cols),
        stride(a.stride_h),
        extent(extents.extent_h) {}

  float* at(Size i) const {
    return patch + i % stride * amx.patch_phase + i / stride * amx.patch_cols * kBlock;
  }
  /// Calls body(row of x, its place) for all of them.
  template <class Body>
  MEGACONV_INLINE void for_each_row(const Body& body) const {
    for (Size i = 0; i < num_rows; ++i) {
      if (i % stride < extent) body(row + i, at(i));
    }
  }
  /// Zeros behind the last rows, for one step.
  void end_rows(Size step) const {
    for (Size phase = 0; phase < min_of(min_of(stride, extent), num_rows); ++phase) {
      clear(at(phase) + step * amx.patch_step +
                ceil_div(num_rows - phase, stride) * amx.patch_cols * kBlock,
            amx.shared_cols);
    }
  }
  static MEGACONV_INLINE void clear(float* to, Size pixels) {
    for (Size j = 0; j < pixels; ++j) store(to + j * kBlock, Vec{});
  }

  const AmxExtents& amx;
  float* patch;
  Size num_rows;
  Size row, col;  ///< of x, may be outside
  Size col_distance, cols;
  Size stride, extent;
};

/// Rows whose taps are joined.
template <class T>
void copy_joined_taps(const ConvProblem& a, const Pitches& x, const T* image, Size outputs,
                      const AmxPatch& patch) {
  patch.for_each_row([&](Size row, float* to) __attribute__((always_inline)) {
    if (row < 0 || row >= a.h) return AmxPatch::clear(to, outputs);
    const T* const from = image + row * x.row * x.step;
    for (Size j = 0; j < outputs; ++j) {
      const Size col = patch.col + j * a.stride_w, count = patch.amx.channels;
      store(to + j * kBlock, x.step == a.c ? read_row_words(from, a.w * a.c, col * a.c, count)
                                           : read_pixel_words(from, a, x.step, col, count));
    }
  });
}

/// Pixels of NHWC, all channels of one after the other's. `image`: the conv group's first channel.
template <class T>
void copy_pixels(const ConvProblem& a, const Pitches& x, const T* image, const AmxPatch& patch) {
  const AmxExtents& amx = patch.amx;
  const Size last = amx.steps - 1, patch_step = amx.patch_step;
  const Size step_bytes = amx.step_words * kWordBytes;
  const std::uint64_t whole = first_bytes(step_bytes);
  const std::uint64_t rest =
      first_bytes(amx.channels * static_cast<Size>(sizeof(T)) - last * step_bytes);
  const auto copy =
      [](std::uint64_t mask, const std::byte* from, float* to) __attribute__((always_inline)) {
    store(to, __builtin_bit_cast(Vec, _mm512_maskz_loadu_epi8(mask, from)));
  };
  const Size distance = patch.col_distance;
  const Size pixel_bytes = x.step * distance * static_cast<Size>(sizeof(T));
  patch.for_each_row([&](Size row, float* to) __attribute__((always_inline)) {
    const bool inside = row >= 0 && row < a.h;
    const Size begin =
        inside ? min_of(ceil_div(max_of(-patch.col, 0), distance), patch.cols) : patch.cols;
    const Size end = min_of(ceil_div(max_of(a.w - patch.col, 0), distance), patch.cols);
    const Size pixel = (inside ? row : 0) * x.row + patch.col + begin * distance;
    const T* const first = image + pixel * x.step;
    const auto* from = reinterpret_cast<const std::byte*>(first);
    for (Size j = begin; j < end; ++j, from += pixel_bytes) {
      float* words = to + j * kBlock;
      const std::byte* channels = from;
      for (Size step = 0; step < last; ++step) {
        copy(whole, channels, words);
        channels += step_bytes;
        words += patch_step;
      }
      copy(rest, channels, words);
    }
    for (Size step = 0; step <= last; ++step) {
      AmxPatch::clear(to + step * patch_step, begin);
      AmxPatch::clear(to + step * patch_step + max_of(begin, end) * kBlock,
                      patch.cols - max_of(begin, end));
    }
  });
}

/// Copies the input of a task.
template <class T>
void make_amx_patch(const TaskArgs& args, const AmxPatch& patch, const PixelRect& rect,
                    Size first_channel) {
  using Packed = typename AmxWords<T>::Type;
  const ConvProblem& a = args.tiling->problem;
  const AmxExtents& amx = patch.amx;
  const Pitches x = x_pitches(args);
  const T* const image = static_cast<const T*>(args.x) + rect.image * x.image;
  if (amx.joined) return copy_joined_taps(a, x, image, rect.cols, patch);
  if (a.layout == Layout::nhwc) {
    copy_pixels(a, x, image + first_channel, patch);
  } else {
    const Size step_channels = amx.step_words * Packed::kChannels;
    for (Size step = 0; step < amx.steps; ++step) {
      const Size c = step * step_channels;
      const PixelReader<T, Packed> reader(args, rect.image, first_channel + c,
                                          min_of(step_channels, amx.channels - c));
      patch.for_each_row([&](Size row, float* to) __attribute__((always_inline)) {
        const auto place = [&](Size j) __attribute__((always_inline)) {
          return to + step * amx.patch_step + j * kBlock;
        };
        if (patch.col_distance == 1) {
          reader.read_row(row, patch.col, patch.cols, place);
        } else {
          reader.template read_row<2>(row, patch.col, patch.cols, place);
        }
      });
    }
  }
  for (Size step = 0; step < amx.steps; ++step) patch.end_rows(step);
}

/// Lists the steps of a sum, a step's taps one after the other, so that they find its words of x in
/// the L1.
inline const AmxStep* list_amx_steps(const ConvProblem& a, const AmxExtents& amx, const Pitches& at,
                                     Size x_step, Size element, AmxStep* list) {
  Size u = 0;
  for (Size step = 0; step < amx.steps; ++step) {
    for (Size r = 0; r < amx.taps_h; ++r) {
      for (Size s = 0; s < amx.taps_w; ++s, u += amx.step_words * kBlock) {
        const Size row = r * a.dilation_h, col = s * a.dilation_w;
        const Size patch =
            row % a.stride_h * amx.patch_phase + (row / a.stride_h * amx.patch_cols + col) * kBlock;
        const Size tap =
            amx.in_place ? (row * at.row + col) * at.step * element : patch * kWordBytes;
        *list++ = {tap + step * x_step, u};
      }
    }
  }
  return list;
}

/// `blocks` of one conv group.
template <class T, class Registers>
void amx_blocks(const TaskArgs& args, const Extents& extents, const AmxExtents& amx,
                const PixelRect& rect, Size conv_group, const BlockRange& blocks,
                std::byte* scratch) {
  const ConvProblem& a = args.tiling->problem;
  constexpr auto kElement = static_cast<Size>(sizeof(T));
  const Size first_channel = conv_group * extents.channels;
  const Pitches at = x_pitches(args);
  const std::byte* x = scratch;
  AmxLines lines;
  lines.cols = rect.cols;
  if (amx.in_place) {
    const Size row = rect.row * a.stride_h, col = rect.col * a.stride_w;
    const Size pixel = rect.image * at.image + (row * at.row + col) * at.step + first_channel;
    // Of filters that read all pixels of all rows the outputs follow each other.
    const bool rows_join = a.stride_h == 1 && a.stride_w == 1 && rect.cols == at.row;
    x = static_cast<const std::byte*>(args.x) + pixel * kElement;
    lines.pixel_bytes = a.stride_w * at.step * kElement;
    lines.line_bytes = a.stride_h * at.row * at.step * kElement;
    lines.count = rows_join ? 1 : rect.rows;
    lines.outputs = rows_join ? rect.rows * rect.cols : rect.cols;
    lines.row_outputs = rect.cols;
  } else {
    const AmxPatch patch(a, extents, amx, rect, reinterpret_cast<float*>(scratch));
    make_amx_patch<T>(args, patch, rect, first_channel);
    lines.pixel_bytes = amx.col_step * kBlock * kWordBytes;
    lines.outputs = (rect.rows - 1) * amx.row_outputs + rect.cols;
    lines.row_outputs = amx.row_outputs;
  }
  auto* const steps = reinterpret_cast<AmxStep*>(scratch + amx.steps_at);
  auto* const tiles = reinterpret_cast<AmxTile*>(scratch + amx.tiles_at);
  const Size x_step = amx.in_place ? amx.step_words * kWordBytes : amx.patch_step * kWordBytes;
  const Size pixels = amx_pixels(lines, Registers::kPixels == 2);
  const AmxTile* const last_tile = list_amx_tiles(lines, pixels, tiles);
  AmxArgs kernel;
  kernel.x = x;
  kernel.pixel_bytes = lines.pixel_bytes;
  kernel.filter_block = amx.filter_block;
  kernel.begin = steps;
  kernel.end = list_amx_steps(a, amx, at, x_step, kElement, steps);

  const AmxShapes shapes(Registers{}, pixels, amx.step_words);
  AmxSums<Registers> sums;
  const Size first_block = conv_group * extents.filter_blocks_per_conv_group;
  const bool nhwc = a.layout == Layout::nhwc;
  for (Size kb = blocks.first; kb < blocks.last; kb += Registers::kFilters) {
    const Size num_blocks = min_of(Registers::kFilters, blocks.last - kb);
    const auto writer = [&](Size block) {
      const Size filter = (kb + block - first_block) * kBlock;  // within the conv group
      return PixelWriter<T>(args, extents, rect.image, conv_group * extents.filters + filter,
                            min_of(kBlock, extents.filters - filter));
    };
    const PixelWriter<T> writers[] = {writer(0), writer(num_blocks - 1)};
    const Size filter = (kb - first_block) * kBlock;
    const bool pairs = num_blocks == 2 && nhwc && filter + 2 * kBlock <= extents.filters;
    const PairWriter<T> pair_writer(args, extents, rect.image,
                                    pairs ? conv_group * extents.filters + filter : 0);
    const auto write = [&](const AmxTile* begin, const AmxTile* end) {
      for (const AmxTile* tile = begin; tile != end; ++tile) {
        const auto* const of_tile = sums.of + (tile - begin) * Registers::kFilters;
        for_each_run(lines, *tile, pixels, [&](Size i, Size row, Size col, Size count) {
          row += rect.row;
          col += rect.col;
          if (pairs) return pair_writer.write_row(of_tile[0][i], of_tile[1][i], row, col, count);
          for (Size block = 0; block < num_blocks; ++block) {
            writers[block].write_row(of_tile[block][i], row, col, count);
          }
        });
      }
    };
    kernel.u = args.u + kb * amx.filter_block;
    const AmxTile *before = tiles, *tile = tiles;
    for (Size left = ceil_div(last_tile - tiles, Registers::kPixels); left > 0; --left) {
      const Size num_tiles = ceil_div(last_tile - tile, left);
      kernel.tiles = tile;
      multiply_tiles<T, Registers>(kernel, num_tiles, num_blocks);
      write(before, tile);  // while the products go on
      sums.store(num_tiles);
      before = tile;
      tile += num_tiles;
    }
    write(before, tile);
  }
}

/// Tasks of kind `direct` of tilings with multiplies_words().
template <class T>
void amx_convolution(const TaskArgs& args, std::uint32_t group, std::uint32_t block,
                     std::byte* scratch) {
  const Tiling& tiling = *args.tiling;
  const Extents extents(tiling);
  const AmxExtents amx(tiling);
  const DirectCut& cut = direct_cut(tiling);
  const PixelRect rect(cut, extents, group);
  const BlockRange blocks(block, cut.filter_blocks_per_gemm_task, extents.filter_blocks);
  // A task's filter blocks may span conv groups; each has its own input channels.
  const Size per_group = extents.filter_blocks_per_conv_group;
  for (BlockRange part = blocks; part.first < blocks.last; part.first = part.last) {
    const Size conv_group = part.first / per_group;
    part.last = min_of(blocks.last, (conv_group + 1) * per_group);
    const bool column = !amx.in_place && amx.taps_h * amx.taps_w * amx.steps >= kColumnSteps;
    const auto body = column ? amx_blocks<T, AmxColumn> : amx_blocks<T, AmxSquare>;
    body(args, extents, amx, rect, conv_group, part, scratch);
  }
  end_streaming();
}

/// w -> U for these.
template <class T>
void amx_filter_packing(const TaskArgs& args, std::uint32_t, std::uint32_t block, std::byte*) {
  const Tiling& tiling = *args.tiling;
  const Extents extents(tiling);
  const AmxExtents amx(tiling);
  const BlockRange blocks(block, tiling.filter_blocks_per_filter_task, extents.filter_blocks);
  for (Size kb = blocks.first; kb < blocks.last; ++kb) {
    float* const u = args.u + kb * amx.filter_block;
    __builtin_memset(u, 0, static_cast<std::size_t>(amx.filter_block) * sizeof(float));
    pack_words<typename AmxWords<T>::Type>(
        FilterRows<T>(args, extents, kb), amx.channels,
        u, [&](Size tap, Size word) __attribute__((always_inline)) {
          const Size step = word / amx.step_words;
          return (step * amx.taps_h * amx.taps_w + tap) * amx.step_words + word % amx.step_words;
        });
  }
}

}  // namespace megaconv::cpu::MEGACONV_ISA

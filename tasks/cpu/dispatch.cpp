// SPDX-License-Identifier: Apache-2.0
// Which instruction sets this machine can run, and the choice among them.
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <cstdlib>

#include "megaconv/error.hpp"
#include "tasks/cpu/extents.hpp"
#include "tasks/cpu/kernels.hpp"

namespace megaconv::cpu {

#if defined(MEGACONV_BODIES_avx512)
namespace avx512 {
extern const Kernels kKernels;
}
namespace avx512_vnni {
extern const TaskFunction kDirect;
}
namespace avx512_bf16 {
extern const TaskFunction kFilterTransform, kDirect;
}
namespace avx512_amx {
extern const TaskFunction kBf16FilterTransform, kBf16Direct, kInt8FilterTransform, kInt8Direct;
}
#endif
#if defined(MEGACONV_BODIES_avx2)
namespace avx2 {
extern const Kernels kKernels;
}
#endif
#if defined(MEGACONV_BODIES_portable)
namespace portable {
extern const Kernels kKernels;
}
#endif

namespace {

using KernelList = std::vector<const Kernels*>;

// These also ask the operating system whether it saves the registers.
#if defined(__x86_64__)
// Clang's __builtin_cpu_supports() does not know it.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

[[maybe_unused]] bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}
#endif

#if defined(MEGACONV_BODIES_avx512)
TaskFunction& task(Kernels& kernels, DataType dtype, TaskKind kind) {
  return kernels.by_kind[static_cast<std::size_t>(dtype)][static_cast<std::size_t>(kind)];
}

const Kernels& avx512_vnni_kernels() {
  static const Kernels kernels = [] {
    Kernels made = avx512::kKernels;
    made.isa = "avx512_vnni";
    task(made, DataType::i8, TaskKind::direct) = avx512_vnni::kDirect;
    return made;
  }();
  return kernels;
}

/// Every processor with BF16 products has VNNI.
const Kernels& avx512_bf16_kernels() {
  static const Kernels kernels = [] {
    Kernels made = avx512_vnni_kernels();
    made.isa = "avx512_bf16";
    made.u_bytes = u_bytes_with_pairs;
    task(made, DataType::bf16, TaskKind::filter_transform) = avx512_bf16::kFilterTransform;
    task(made, DataType::bf16, TaskKind::direct) = avx512_bf16::kDirect;
    return made;
  }();
  return kernels;
}

const Kernels& avx512_amx_kernels() {
  static const Kernels kernels = [] {
    Kernels made = avx512_bf16_kernels();
    made.isa = "avx512_amx";
    made.amx = true;
    made.scratch_bytes = scratch_bytes_with_amx;
    made.u_bytes = u_bytes_with_amx;
    task(made, DataType::bf16, TaskKind::filter_transform) = avx512_amx::kBf16FilterTransform;
    task(made, DataType::bf16, TaskKind::direct) = avx512_amx::kBf16Direct;
    task(made, DataType::i8, TaskKind::filter_transform) = avx512_amx::kInt8FilterTransform;
    task(made, DataType::i8, TaskKind::direct) = avx512_amx::kInt8Direct;
    return made;
  }();
  return kernels;
}

/// Whether the processor has AMX, and the kernel lets this process use it. Linux gives the
/// registers to a process that asks (Documentation/arch/x86/xstate.rst), and to all its threads.
bool may_use_amx() {
#if defined(__linux__)
  static const bool may = [] {
    constexpr unsigned kBf16 = 1u << 22, kTile = 1u << 24, kInt8 = 1u << 25;
    constexpr unsigned kAll = kBf16 | kTile | kInt8;
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kAll) != kAll) return false;
    constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
    return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  }();
  return may;
#else
  return false;
#endif
}

void add_avx512(KernelList& kernels) {
  if (!has_avx2() || !__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512vl") ||
      !__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512dq")) {
    return;
  }
  if (__builtin_cpu_supports("avx512vnni")) {
    if (__builtin_cpu_supports("avx512bf16")) {
      if (may_use_amx()) kernels.push_back(&avx512_amx_kernels());
      kernels.push_back(&avx512_bf16_kernels());
    }
    kernels.push_back(&avx512_vnni_kernels());
  }
  kernels.push_back(&avx512::kKernels);
}
#endif

/// Best first. Empty only where a build for one machine (MEGACONV_NATIVE) runs on another.
KernelList available_kernels() {
  KernelList kernels;
#if defined(MEGACONV_BODIES_avx512)
  add_avx512(kernels);
#endif
#if defined(MEGACONV_BODIES_avx2)
  if (has_avx2()) kernels.push_back(&avx2::kKernels);
#endif
#if defined(MEGACONV_BODIES_portable)
  kernels.push_back(&portable::kKernels);
#endif
  return kernels;
}

}  // namespace

std::vector<std::string> available_isas() {
  std::vector<std::string> names;
  for (const Kernels* kernels : available_kernels()) names.emplace_back(kernels->isa);
  return names;
}

const Kernels& kernels_for(std::string_view isa) {
  const char* const forced = std::getenv("MEGACONV_ISA");
  if (isa.empty() && forced != nullptr) isa = forced;
  const KernelList available = available_kernels();
  std::string names;
  for (const Kernels* kernels : available) {
    if (isa.empty() || isa == kernels->isa) return *kernels;
    names += (names.empty() ? "" : ", ") + std::string(kernels->isa);
  }
  if (available.empty()) {
    throw Error(Status::unsupported,
                "this build is for the instruction set of another machine (MEGACONV_NATIVE)");
  }
  throw Error(Status::unsupported,
              "instruction set \"" + std::string(isa) + "\": this machine and build have " + names);
}

}  // namespace megaconv::cpu

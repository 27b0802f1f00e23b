// SPDX-License-Identifier: Apache-2.0
// The clock of the tools on a CUDA device.
#include "tests/catch.hpp"
#include "tests/cuda/device.hpp"
#include "tools/run/tensors.hpp"

using namespace megaconv;
using megaconv::test::DeviceBuffer;
using megaconv::test::have_device;
using megaconv::test::require_cuda;

namespace {

cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }

}  // namespace

TEST_CASE("cuda clock: samples are replays of what was captured once") {
  if (!have_device()) SKIP("no CUDA device");
  constexpr std::size_t kBytes = std::size_t{1} << 20;
  const DeviceBuffer memory(kBytes);
  int enqueued = 0;
  const auto fill = [&](void* stream, int times) {
    ++enqueued;
    for (int i = 0; i < times; ++i) {
      require_cuda(cudaMemsetAsync(memory.get(), 0x5a, kBytes, stream_of(stream)));
    }
  };
  const auto wait = [](void* stream) { require_cuda(cudaStreamSynchronize(stream_of(stream))); };
  for (const cli::Caches caches : {cli::Caches::hot, cli::Caches::cold}) {
    const auto clock =
        cli::cuda_device().clock({[&](void* stream) { fill(stream, 4); }, wait}, caches);
    const int captured = enqueued;
    CHECK(clock() > 0);
    CHECK(enqueued == captured);  // replays, no new launches
    CHECK(memory.download<unsigned char>().front() == 0x5a);
    CHECK(memory.guards_intact());
  }
}

TEST_CASE("cuda clock: work that cannot be captured is timed all the same") {
  if (!have_device()) SKIP("no CUDA device");
  const DeviceBuffer memory(4096);
  int enqueued = 0;
  const auto wait = [](void* stream) { require_cuda(cudaStreamSynchronize(stream_of(stream))); };
  const auto clock = cli::cuda_device().clock(
      {[&](void* stream) {
         ++enqueued;
         require_cuda(cudaMemsetAsync(memory.get(), 0, memory.bytes(), stream_of(stream)));
         if (cudaStreamSynchronize(stream_of(stream)) != cudaSuccess) {
           throw Error(Status::device_error, "not while capturing");
         }
       },
       wait},
      cli::Caches::hot);
  const int before = enqueued;
  CHECK(clock() > 0);
  CHECK(enqueued > before);
  CHECK(cudaPeekAtLastError() == cudaSuccess);
}

TEST_CASE("cuda clock: a replayed plan leaves the result of a run") {
  if (!have_device()) SKIP("no CUDA device");
  const cli::TensorSet tensors = [] {
    cli::TensorSet made =
        cli::allocate_tensors(cli::cuda_device(), parse_problem("n2c32h20k48"), false);
    cli::fill_random(made, 1);
    return made;
  }();
  PlanOptions options;
  options.backend = Backend::cuda;
  cli::Runner runner(Plan::create(tensors.problem, options), tensors);
  runner.run();
  const std::vector<std::byte> expected = cli::download(tensors, tensors.y);
  cli::cuda_device().fill_bytes(tensors.y.data(), std::byte{0xff}, tensors.y.bytes());
  CHECK(runner.sample_ms() > 0);
  CHECK((cli::download(tensors, tensors.y) == expected));
}

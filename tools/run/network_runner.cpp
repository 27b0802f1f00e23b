// SPDX-License-Identifier: Apache-2.0
#include "tools/run/network_runner.hpp"

namespace megaconv::cli {

NetworkRunner::NetworkRunner(const Network& network, const PlanOptions& options, std::uint64_t seed)
    : plan_(Plan::create(network, options)) {
  Device& device = device_of(options.backend);
  const Lowering& lowering = plan_.lowering();
  const auto bytes_of = [&](BufferId id) { return lowering.graph.buffers[id].bytes; };
  double bytes = static_cast<double>(plan_.workspace_bytes() + plan_.prepared_filter_bytes());
  for (const BufferId id : lowering.inputs) bytes += static_cast<double>(bytes_of(id));
  for (const BufferId id : lowering.outputs) bytes += static_cast<double>(bytes_of(id));
  require_memory(device, "the network", bytes);
  workspace_ = Buffer(device, plan_.workspace_bytes());
  filters_ = Buffer(device, plan_.prepared_filter_bytes());
  if (filters_.bytes() != 0) plan_.prepare_filters(filters_.data());
  for (const BufferId id : lowering.inputs) {
    inputs_.emplace_back(device, bytes_of(id));
    const auto count = static_cast<std::int64_t>(bytes_of(id) / size_of(network.dtype));
    device.fill(network.dtype, inputs_.back().data(), count, {}, ++seed);
    input_pointers_.push_back(inputs_.back().data());
  }
  for (const BufferId id : lowering.outputs) {
    outputs_.emplace_back(device, bytes_of(id));
    output_pointers_.push_back(outputs_.back().data());
  }
}

void NetworkRunner::enqueue(void* stream, Trace* trace) const {
  plan_.execute(NetworkTensors{.inputs = input_pointers_,
                               .outputs = output_pointers_,
                               .prepared_filters = filters_.data()},
                workspace_.data(), workspace_.bytes(), {.trace = trace, .stream = stream});
}

void NetworkRunner::run(Trace* trace) {
  enqueue(nullptr, trace);
  plan_.wait(workspace_.data());
}

double NetworkRunner::sample_ms() {
  if (!clock_) {
    clock_ = device_of(plan_.backend())
                 .clock({[this](void* stream) { enqueue(stream, nullptr); },
                         [this](void* stream) { plan_.wait(workspace_.data(), stream); }},
                        Caches::hot);
  }
  return clock_();
}

std::vector<std::byte> NetworkRunner::on_host(const Buffer& tensor) const {
  std::vector<std::byte> bytes(tensor.bytes());
  device_of(plan_.backend()).download(bytes.data(), tensor.data(), bytes.size());
  return bytes;
}

void NetworkRunner::spoil_outputs() {
  for (const Buffer& output : outputs_) {
    device_of(plan_.backend()).fill_bytes(output.data(), std::byte{0xff}, output.bytes());
  }
}

void NetworkRunner::set_input(std::size_t i, const std::vector<std::byte>& bytes) {
  device_of(plan_.backend()).upload(inputs_[i].data(), bytes.data(), bytes.size());
}

}  // namespace megaconv::cli

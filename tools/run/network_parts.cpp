// SPDX-License-Identifier: Apache-2.0
#include "tools/run/network_parts.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "tasks/fuse.hpp"

namespace megaconv::cli {
namespace {

/// The operators of a network that are fused to one, as a network; values that it reads are inputs.
Network part_of(const Network& network, const std::map<std::string, Shape>& shapes,
                const FusedOperator& op) {
  Network part{.outputs = {op.value()}, .dtype = network.dtype, .layout = network.layout};
  const auto is_inside = [&](const std::string& value) {
    return std::find(op.operators.begin(), op.operators.end(), value) != op.operators.end();
  };
  for (const Operator& one : network.operators) {
    if (!is_inside(one.name)) continue;
    for (const std::string& value : one.reads) {
      const bool known =
          std::any_of(part.inputs.begin(), part.inputs.end(),
                      [&](const NetworkInput& input) { return input.name == value; });
      if (!known && !is_inside(value)) part.inputs.push_back({value, shapes.at(value)});
    }
    part.operators.push_back(one);
  }
  return part;
}

}  // namespace

std::vector<Network> parts_of(const Network& network) {
  const std::map<std::string, Shape> shapes = shapes_of(network);
  std::vector<Network> parts;
  for (const FusedOperator& op : fuse(network).operators) {
    parts.push_back(part_of(network, shapes, op));
  }
  return parts;
}

NetworkParts::NetworkParts(const Network& network, const PlanOptions& options, std::uint64_t seed)
    : backend_(options.backend) {
  Device& device = device_of(options.backend);
  const std::map<std::string, Shape> shapes = shapes_of(network);
  std::map<std::string, std::size_t> ids;
  const auto add_value = [&](const std::string& name) {
    ids[name] = values_.size();
    const std::int64_t size = shapes.at(name).size();
    values_.emplace_back(device, static_cast<std::size_t>(size) * size_of(network.dtype));
    return size;
  };
  for (const NetworkInput& input : network.inputs) {
    const std::int64_t size = add_value(input.name);
    device.fill(network.dtype, values_.back().data(), size, {}, ++seed);
  }
  for (const Network& part : parts_of(network)) {
    add_value(part.outputs.front());
    Part made{.plan = Plan::create(part, options),
              .workspace = {},
              .filters = {},
              .inputs = {},
              .outputs = {values_.back().data()}};
    made.workspace = Buffer(device, made.plan.workspace_bytes());
    made.filters = Buffer(device, made.plan.prepared_filter_bytes());
    if (made.filters.bytes() != 0) made.plan.prepare_filters(made.filters.data());
    for (const NetworkInput& input : part.inputs) {
      made.inputs.push_back(values_[ids.at(input.name)].data());
    }
    parts_.push_back(std::move(made));
  }
  output_ = ids.at(network.outputs.front());
}

void NetworkParts::enqueue(void* stream) const {
  for (const Part& part : parts_) {
    part.plan.execute(NetworkTensors{.inputs = part.inputs,
                                     .outputs = part.outputs,
                                     .prepared_filters = part.filters.data()},
                      part.workspace.data(), part.workspace.bytes(), {.stream = stream});
  }
}

void NetworkParts::wait(void* stream) const {
  for (const Part& part : parts_) part.plan.wait(part.workspace.data(), stream);
}

void NetworkParts::run() const {
  enqueue(nullptr);
  wait(nullptr);
}

std::size_t NetworkParts::value_bytes() const {
  std::size_t bytes = 0;
  for (const Buffer& value : values_) bytes += value.bytes();
  return bytes;
}

double NetworkParts::sample_ms() {
  if (!clock_) {
    clock_ = device_of(backend_).clock(
        {[this](void* stream) { enqueue(stream); }, [this](void* stream) { wait(stream); }},
        Caches::hot);
  }
  return clock_();
}

std::vector<std::byte> NetworkParts::output() const {
  std::vector<std::byte> bytes(values_[output_].bytes());
  device_of(backend_).download(bytes.data(), values_[output_].data(), bytes.size());
  return bytes;
}

}  // namespace megaconv::cli

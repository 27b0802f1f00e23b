// SPDX-License-Identifier: Apache-2.0
#include "tests/checksums/command.hpp"

#include <charconv>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <exception>
#include <optional>

#include "megaconv/error.hpp"

namespace megaconv::checksums {
namespace {

constexpr const char* kHelp =
    R"(Prints a line for each of a seed's cases: problem, configuration, instruction set, hash of y.
Two builds that print the same lines compute the same bits.

  --count N   cases (default: %)" PRIu64 R"()
  --seed S    whose cases (default: 1)
  --first I   index of the first one (default: 0); a case does not depend on those before it
)";

struct Arguments {
  std::uint64_t count = 0, seed = 1, first = 0;
};

// nullopt for a wrong command line.
std::optional<Arguments> parse(const Program& program, int argc, char** argv) {
  Arguments arguments{.count = program.count};
  for (int i = 1; i < argc; i += 2) {
    std::uint64_t* const target = std::strcmp(argv[i], "--count") == 0   ? &arguments.count
                                  : std::strcmp(argv[i], "--seed") == 0  ? &arguments.seed
                                  : std::strcmp(argv[i], "--first") == 0 ? &arguments.first
                                                                         : nullptr;
    if (target == nullptr || i + 1 == argc) return std::nullopt;
    const char* const end = argv[i + 1] + std::strlen(argv[i + 1]);
    const auto [stop, error] = std::from_chars(argv[i + 1], end, *target);
    if (error != std::errc() || stop != end) return std::nullopt;
  }
  return arguments;
}

std::string hash_text(std::uint64_t hash) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016" PRIx64, hash);
  return text;
}

}  // namespace

int run_program(const Program& program, int argc, char** argv) {
  const std::optional<Arguments> arguments = parse(program, argc, argv);
  if (!arguments) {
    const bool asked = argc == 2 && std::strcmp(argv[1], "--help") == 0;
    std::fprintf(asked ? stdout : stderr, "usage: %s [--count N] [--seed S] [--first I]\n\n",
                 program.name);
    std::fprintf(asked ? stdout : stderr, kHelp, program.count);
    return asked ? 0 : 2;
  }
  const auto begin = std::chrono::steady_clock::now();
  std::uint64_t refused = 0;
  for (std::uint64_t i = 0; i < arguments->count; ++i) {
    const Case item = program.draw(arguments->seed, arguments->first + i);
    std::string result;
    try {
      result = hash_text(program.run(parse_problem(item.problem), item));
    } catch (const Error& error) {
      // A build without the instruction set that was asked for has nothing to compare.
      if (i == 0 && arguments->first == 0 && error.status() != Status::invalid_argument) {
        std::fprintf(stderr, "%s: %s\n", program.name, error.what());
        return 1;
      }
      result = std::string("refused:") + to_string(error.status());
      ++refused;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s: case %" PRIu64 ", %s: %s\n", program.name, arguments->first + i,
                   to_string(item).c_str(), error.what());
      return 1;
    }
    std::printf("%s %s %s\n", to_string(item).c_str(), program.isa.c_str(), result.c_str());
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::fprintf(stderr, "%s: %" PRIu64 " cases, %" PRIu64 " refused, %.1f s\n", program.name,
               arguments->count, refused, seconds.count());
  return std::fflush(stdout) == 0 ? 0 : 1;
}

}  // namespace megaconv::checksums

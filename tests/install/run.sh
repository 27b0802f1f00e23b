#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILD_DIR: installs that build, moves the installed tree, and builds and runs the C++ and the C
# program of README.md, that of docs/networks.md and those of docs/c.md against it, by find_package and by
# pkg-config; then the commands of README.md.
set -euo pipefail
build_dir=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

cmake --install "$build_dir" --prefix "$work/first" >install.log
mv first prefix  # nothing may depend on where it was installed

# code_of PAGE LANGUAGE: the first block of code in that language.
code_of() {
  awk -v fence="\`\`\`$2" '$0 == fence { on = 1; next } /^```/ && on { exit } on' "$here/../../$1"
}
code_of README.md cpp >example.cpp
code_of README.md c >example.c
code_of docs/networks.md cpp >network.cpp
code_of docs/c.md c >network.c
code_of docs/tutorials/application.md cpp >tutorial.cpp
code_of docs/c.md cuda >gpu.c

# expect RESULT PROGRAM: it runs and prints what its page promises.
expect() {
  local output
  output=$("$2")
  grep -q "$1" <<<"$output" || { printf '%s printed:\n%s\n' "$2" "$output"; exit 1; }
}

cmake -S "$here/consumer" -B cmake_build -DCMAKE_PREFIX_PATH="$work/prefix" -DEXAMPLES_DIR="$work" >cmake.log
cmake --build cmake_build >>cmake.log || { cat cmake.log; exit 1; }
expect "y = 288.0" cmake_build/example_cpp
expect "y = 288.0" cmake_build/example_c

# A project without C++, with the static library and, where the build has it, with libmegaconv_c.
cmake -S "$here/consumer_c" -B c_build -DCMAKE_PREFIX_PATH="$work/prefix" -DEXAMPLES_DIR="$work" >c.log
cmake --build c_build >>c.log || { cat c.log; exit 1; }
for suffix in "" _c; do
  if [[ $suffix == _c && ! -e c_build/example_c ]]; then continue; fi
  expect "y = 288.0" c_build/example$suffix
  expect "input x of 64 x 64, scores\[0\] = " c_build/network$suffix
done
if [[ -e /usr/local/cuda/include/cuda_runtime_api.h ]]; then
  cc -Wall -Wextra -Werror -fsyntax-only -I prefix/include -isystem /usr/local/cuda/include gpu.c
fi

pc_file=$(find prefix -name megaconv.pc)
PKG_CONFIG_PATH=$(realpath "$(dirname "$pc_file")")
export PKG_CONFIG_PATH
libdir=$(pkg-config --variable=libdir megaconv)
linkage=()
if [[ -e $libdir/libmegaconv.a ]]; then linkage=(--static); fi
read -r -a flags < <(pkg-config "${linkage[@]}" --cflags --libs megaconv)
"$CXX" -std=c++20 example.cpp -o example_cpp "${flags[@]}"
"$CXX" -std=c++20 network.cpp -o network "${flags[@]}"
"$CXX" -std=c++20 tutorial.cpp -o tutorial "${flags[@]}"
cc example.c -o example_c "${flags[@]}"
export LD_LIBRARY_PATH=$libdir
expect "score = 26.39" ./network
expect "^19.0 37.0$" ./tutorial
expect "y = 288.0" ./example_cpp
expect "y = 288.0" ./example_c

# The installed command, where the build has one: all of README.md's but the benchmark, and its Python.
if [[ -e prefix/bin/megaconv ]]; then
  export PATH=$work/prefix/bin:$PATH
  awk '/^```/ { sh = $0 == "```sh" } sh && /^megaconv / && !/^megaconv bench/' "$here/../../README.md" >commands.sh
  bash -euo pipefail commands.sh >commands.log
  code_of README.md python >example.py
  if python3 -c 'import numpy' 2>/dev/null; then python3 example.py; fi
fi

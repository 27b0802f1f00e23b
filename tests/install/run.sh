#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILD_DIR: installs that build, moves the installed tree, and builds and runs the C++ and the C
# program of README.md against it, by find_package and by pkg-config; then the commands of README.md.
set -euo pipefail
build_dir=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

cmake --install "$build_dir" --prefix "$work/first" >install.log
mv first prefix  # nothing may depend on where it was installed

# readme_code LANGUAGE: the first block of code in that language.
readme_code() {
  awk -v fence="\`\`\`$1" '$0 == fence { on = 1; next } /^```/ && on { exit } on' "$here/../../README.md"
}
readme_code cpp >example.cpp
readme_code c >example.c

# expect_result PROGRAM: it runs and prints what README.md promises.
expect_result() {
  local output
  output=$("$@")
  grep -q 'y = 288.0' <<<"$output" || { printf '%s printed:\n%s\n' "$1" "$output"; exit 1; }
}

cmake -S "$here/consumer" -B cmake_build -DCMAKE_PREFIX_PATH="$work/prefix" -DEXAMPLES_DIR="$work" >cmake.log
cmake --build cmake_build >>cmake.log || { cat cmake.log; exit 1; }
expect_result cmake_build/example_cpp
expect_result cmake_build/example_c

pc_file=$(find prefix -name megaconv.pc)
PKG_CONFIG_PATH=$(realpath "$(dirname "$pc_file")")
export PKG_CONFIG_PATH
libdir=$(pkg-config --variable=libdir megaconv)
linkage=()
if [[ -e $libdir/libmegaconv.a ]]; then linkage=(--static); fi
read -r -a flags < <(pkg-config "${linkage[@]}" --cflags --libs megaconv)
"$CXX" -std=c++20 example.cpp -o example_cpp "${flags[@]}"
cc example.c -o example_c "${flags[@]}"
export LD_LIBRARY_PATH=$libdir
expect_result ./example_cpp
expect_result ./example_c

# The installed command, where the build has one: all of README.md's but the benchmark, and its Python.
if [[ -e prefix/bin/megaconv ]]; then
  export PATH=$work/prefix/bin:$PATH
  awk '/^```/ { sh = $0 == "```sh" } sh && /^megaconv / && !/^megaconv bench/' "$here/../../README.md" >commands.sh
  bash -euo pipefail commands.sh >commands.log
  readme_code python >example.py
  if python3 -c 'import numpy' 2>/dev/null; then python3 example.py; fi
fi

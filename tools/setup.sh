# SPDX-License-Identifier: Apache-2.0
# What tools/quickstart and tools/check share: the GPU, packages, configure, build. Source it with
# `set -euo pipefail` on. Every phase shows what it is at, and then prints one line with its time. Its
# output goes to build/<preset>/log/<phase>.log, whose end is shown when it fails.
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Packages of Debian 12 and Ubuntu 24.04, and the program that makes one unnecessary.
packages=(cmake ninja-build g++ pkg-config nlohmann-json3-dev libcli11-dev libspdlog-dev catch2 libsqlite3-dev libprotobuf-dev
          protobuf-compiler relacy-dev)
declare -A program_of=([cmake]=cmake [ninja-build]=ninja [g++]=c++ [pkg-config]=pkg-config
                       [clang-format-14]=clang-format-14)

# "9.0, NVIDIA H200", or nothing. The kernels need compute capability 7.5.
gpu=$(nvidia-smi --id=0 --query-gpu=compute_cap,name --format=csv,noheader 2>/dev/null |
  awk -F, '$1 ~ /^[0-9]+\.[0-9]+$/ && $1 >= 7.5' || true)
capability=${gpu%%,*}

# Ends the script: 2 usage, 4 environment (as the megaconv command does), 1 anything else.
die() {
  local status=$1
  shift
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit "$status"
}

# watch LOG NAME: what a phase is at: on a terminal in one line that changes, elsewhere every 15 s. Ninja
# logs "[n/m] Building CXX object tools/CMakeFiles/megaconv_cli.dir/table.cpp.o" with every step it has done.
watch() {
  local start=$SECONDS step every=15
  if [[ -t 1 ]]; then every=1; fi
  while sleep $every >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do
    step=$(tail -c 4000 "$1" | sed -nE 's/^(\[[0-9]+\/[0-9]+\]) (Building|Linking|Generating) (.* )?([^ ]+)$/\1 \4/p' | tail -n 1 |
      sed -E 's/CMakeFiles\/[^/]*\.dir\///; s/\.o$//')
    if [[ -t 1 ]]; then
      printf '\r\033[K%-12s%5d s  %.60s' "$2" $((SECONDS - start)) "$step"
    elif [[ -n $step ]]; then
      printf '%-12s%5d s  %s\n' "  $2" $((SECONDS - start)) "$step"
    fi
  done
}

# phase PRESET NAME COMMAND...: returns the command's status.
phase() {
  local log="build/$1/log/$2.log" name=$2 start=$SECONDS status=0 watcher
  mkdir -p "build/$1/log"
  shift 2
  : >"$log"
  if [[ -t 1 ]]; then printf '%-12s' "$name"; fi
  watch "$log" "$name" &
  watcher=$!
  "$@" >"$log" 2>&1 </dev/null || status=$?
  kill $watcher 2>/dev/null || true
  wait $watcher 2>/dev/null || true
  if [[ -t 1 ]]; then printf '\r\033[K'; fi
  if ((status == 0)); then
    printf '%-12s%5d s\n' "$name" $((SECONDS - start))
  else
    printf '%-12sfailed after %d s; %s ends with:\n' "$name" $((SECONDS - start)) "$log"
    tail -n 30 "$log" | sed 's/^/  | /'
  fi
  return "$status"
}

is_there() {
  local program=${program_of[$1]-}
  [[ -n $program ]] && command -v "$program" >/dev/null && return
  [[ $(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

# apt_install SUDO... -- PACKAGE...: refreshes the package lists only when the first try fails.
apt_install() {
  local as_root=()
  while [[ $1 != -- ]]; do
    as_root+=("$1")
    shift
  done
  shift
  local install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive
                 apt-get install -y --no-install-recommends "$@")
  "${install[@]}" || { "${as_root[@]}" apt-get update && "${install[@]}"; }
}

# install_packages PRESET PACKAGE...: installs those that are missing. Where that needs a password it exits 4.
# Where it fails, without a network say, the configure step tells what of it is needed.
not_installed=
install_packages() {
  local preset=$1 package missing=() as_root=()
  shift
  if ! command -v dpkg-query >/dev/null; then
    echo "packages     not a Debian or Ubuntu system; needed are what these hold: $*"
    return
  fi
  for package; do
    is_there "$package" || missing+=("$package")
  done
  if ((${#missing[@]} > 0)); then
    if ((EUID != 0)); then
      sudo -n true 2>/dev/null ||
        die 4 "packages are missing, and installing them needs a password. Run this, then try again:
  sudo apt-get update && sudo apt-get install -y ${missing[*]}"
      as_root=(sudo -n)
    fi
    echo "missing      ${missing[*]}"
    if ! phase "$preset" packages apt_install "${as_root[@]}" -- "${missing[@]}"; then
      not_installed=${missing[*]}
      echo "packages     could not be installed; going on with what is there"
    fi
  fi
}

# One job per CPU, but no more than memory bears: a compiler takes up to 1 GiB here.
num_jobs() {
  local cpus limit_kib mem_kib
  cpus=$(nproc)
  mem_kib=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo)
  limit_kib=$(awk '/^[0-9]+$/ { print int($1 / 1024) }' /sys/fs/cgroup/memory.max 2>/dev/null || true)
  if [[ -n $limit_kib ]] && ((limit_kib < mem_kib)); then mem_kib=$limit_kib; fi
  local jobs=$((mem_kib / 1024 / 1024))
  ((jobs < cpus)) || jobs=$cpus
  echo $((jobs > 0 ? jobs : 1))
}

# configure PRESET [CMAKE OPTION...]
configure() {
  local preset=$1 found
  shift
  command -v cmake >/dev/null || die 4 "cmake is missing"
  found=$(cmake --version | awk 'NR == 1 { print $3 }')
  [[ $(printf '%s\n' 3.25 "$found" | sort -V | head -n 1) == 3.25 ]] ||
    die 4 "cmake is version $found, 3.25 or newer is needed"
  phase "$preset" configure cmake --preset "$preset" "$@" && return
  if [[ -n $not_installed ]]; then die 4 "could not install: $not_installed"; fi
  exit 1
}

# optional_parts PRESET: those that the configure step found, and those that it did not.
optional_parts() {
  awk '/have been enabled:/ { mark = "  with    " } /have been disabled:/ { mark = "  without " }
       sub(/^ \* /, "") { print mark $0 }' "build/$1/log/configure.log"
}

# build PRESET [TARGET...]
build() {
  local preset=$1
  shift
  phase "$preset" build cmake --build --preset "$preset" --parallel "$(num_jobs)" ${1:+--target "$@"} ||
    exit 1
}

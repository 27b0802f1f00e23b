#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# symbols.sh LIBRARY: libmegaconv_c shows the functions that megaconv.h declares, and nothing else.
set -euo pipefail
header=$(dirname "$0")/../../include/megaconv/megaconv.h
shown=$(nm -D --defined-only --format=posix "$1" | awk '{ print $1 }' | sort)
# What is declared at the start of a line and ends that declaration, but inline functions of the header.
declared=$(grep -v '^static' "$header" | tr '\n' ' ' | sed -E 's:/\*([^*]|\*+[^*/])*\*+/: :g' |
  grep -oE '(megaconv_status|void|size_t|char\*) megaconv_[a-z_]+\([^()]*\);' |
  sed -E 's/^[^ ]+ (megaconv_[a-z_]+)\(.*/\1/' | sort)
diff <(echo "$declared") <(echo "$shown") && echo "$(wc -l <<<"$shown") functions"

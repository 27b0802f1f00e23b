#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a fuzz target of the preset `fuzz` for MEGACONV_FUZZ_SECONDS (5): first its corpus, then what
# libFuzzer makes of it. An input that breaks the target is left in the current folder.
#
#   run.sh TARGET CORPUS
set -euo pipefail
found=$(mktemp -d)
trap 'rm -rf "$found"' EXIT
"$1" -seed=1 -max_total_time="${MEGACONV_FUZZ_SECONDS:-5}" -max_len=65536 -timeout=60 \
  -rss_limit_mb=2048 -print_final_stats=1 "$found" "$2"

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A list of checksums is the same every time, and its parts do not depend on each other.
#
#   twice.sh PROGRAM COUNT
set -euo pipefail

program=$1 count=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

"$program" --count "$count" >"$folder/first"
"$program" --count "$count" >"$folder/again"
"$program" --count 1 --first $((count - 1)) >"$folder/last"
cmp "$folder/first" "$folder/again"
tail -n 1 "$folder/first" | cmp - "$folder/last"

lines=$(grep -cE '^[^ ]+ algo=[^ ]+ (cpu|emulated)/[a-z0-9_]+ [0-9a-f]{16}$' "$folder/first")
echo "$lines of $count cases have a hash"
((lines * 10 >= count * 9))
status=0
"$program" --cases 3 2>/dev/null || status=$?
((status == 2))

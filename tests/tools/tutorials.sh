#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tutorials.sh MEGACONV FOLDER: the commands of docs/tutorials do what their pages say, in FOLDER's pages.
set -euo pipefail
PATH=$(dirname "$1"):$PATH
pages=$(realpath "$2")
for page in "$pages"/*.md; do
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  cd "$work"
  awk '/^```/ { sh = $0 == "```sh"; next } sh' "$page" >commands
  if ! bash -euo pipefail commands >output 2>&1; then
    echo "$page:"
    cat output
    exit 1
  fi
  cd /
done

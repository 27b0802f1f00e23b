#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# site.sh PACKAGE_FOLDER VENV: the documentation is a site without dead links. PACKAGE_FOLDER has the Python
# package with its stubs; VENV may have mkdocs. 77 without either.
set -euo pipefail
cd "$(dirname "$0")/../.."
PATH=$2/bin:$PATH
if ! mkdocs --version >/dev/null 2>&1; then
  echo "SKIPPED: mkdocs is not installed (pip install -r docs/requirements.txt)"
  exit 77
fi
if [[ ! -e $1/megaconv/_core.pyi ]]; then
  echo "SKIPPED: no Python package in $1 (MEGACONV_BUILD_PYTHON)"
  exit 77
fi
site=$(mktemp -d)
trap 'rm -rf "$site"' EXIT
MEGACONV_PYTHON_PACKAGE=$1 NO_MKDOCS_2_WARNING=1 mkdocs build --strict --site-dir "$site"
test -s "$site/reference/python/index.html"

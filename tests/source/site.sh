#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# site.sh PACKAGE_FOLDER VENV: the documentation is a site without dead links. PACKAGE_FOLDER has the Python
# package with its stubs; VENV may have mkdocs and its theme. 77 without any.
set -euo pipefail
cd "$(dirname "$0")/../.."
PATH=$2/bin:$PATH
if [[ $(mkdocs build --help 2>/dev/null) != *material* ]]; then
  echo "SKIPPED: mkdocs with its theme is not installed (pip install -r docs/requirements.txt)"
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

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Rules about the source text itself: prints every breach as "file:line: what is wrong".
#
#   rules.sh dependencies  includes point one way; public headers include no third party
#   rules.sh core          mapping/ names no algorithm and no device
#   rules.sh operator      an operator (pooling) is named by its room and the registries alone
#   rules.sh licence       every source file starts with its SPDX line
#   rules.sh links         links, headings in them and paths in the documents lead to something
#   rules.sh prose         documents: no line over 100 columns but tables and links, no sentence over 30 words
#   rules.sh performance   docs/performance.md and its charts are what docs/results gives; 77 without python3
#   rules.sh format        clang-format 14 would change nothing; exit status 77 without it
set -euo pipefail
cd "$(dirname "$0")/../.."
folders=(include mapping tasks runtime python tools tests)

# sources EXTENSION...
sources() {
  local names=()
  for extension; do names+=(-o -name "*.$extension"); done
  find "${folders[@]}" -type f \( "${names[@]:1}" \) | sort
}

# include <- mapping <- tasks <- runtime <- python, tools <- tests
dependencies() {
  sources hpp cpp h inl cu cuh | xargs awk '
    BEGIN {
      for (n = split("include mapping tasks runtime python tools tests", names); n > 0; --n) rank[names[n]] = n
    }
    function breach(text) { print FILENAME ":" FNR ": " text; bad = 1 }
    FNR == 1 { split(FILENAME, path, "/"); folder = path[1] }
    match($0, /^[ \t]*#[ \t]*include[ \t]*["<][^">]+/) {
      header = substr($0, RSTART, RLENGTH)
      quoted = header ~ /"/
      sub(/^[^"<]*["<]/, "", header)
      split(header, path, "/")
      from = path[1] == "megaconv" ? "include" : path[1]
      if (from in rank && rank[from] > rank[folder])
        breach(folder "/ includes " header ", which lies above it")
      if (quoted && !(from in rank)) breach("include \"" header "\" by its path from the top folder")
      if (folder == "include" && from != "include" && header !~ /^(std(int|def)\.h|[a-z_]+)$/)
        breach("a public header includes " header)
      if (rank[folder] <= rank["mapping"] && header ~ /cuda|cub\/|thrust|\.cuh$/)
        breach(folder "/ includes CUDA: " header)
    }
    END { exit bad }'
}

core() {
  if grep -rniE 'winograd|implicit_?gemm|opencnn|\bfused|pooling|direct conv|cuda|wgmma|\b[cg]pu\b|\btma\b' mapping; then
    echo "mapping/ is the scheduling core: it knows no algorithm and no device"
    return 1
  fi
}

# What the front ends have of it (docs/hacking.md) is in runtime/onnx, python, tools and tasks/networks. Small tiles
# pool what they compute. The executor of CUDA names none of the operators that share its kernel.
operator() {
  local found
  found=$(sources hpp cpp inl cu cuh | grep -E '^(include|mapping|tasks|runtime)/' |
    grep -vE '^(include/megaconv/(pooling|operators|small_gemm)\.hpp|runtime/onnx/)' |
    grep -vE '^tasks/(pooling/|small_gemm/|implicit_gemm/|lower_network\.cpp|operators\.hpp|networks/|cpu/kernels\.inl|cuda/operators\.hpp)' |
    xargs grep -nE '\b(Pool(Problem|Cut|TaskArgs)|Pooling(Task)?|GlobalAveragePooling)\b|pooling/' || true
    grep -rniE '\b(elementwise|pixelwise|rearrangement)(_|/|Args|Cut|Problem|Task\b)' runtime/cuda || true)
  [ -z "$found" ] && return 0
  echo "$found"
  echo "an operator is named outside of its room and the registries (docs/hacking.md, Adding an operator)"
  return 1
}

licence() {
  local file status=0
  while read -r file; do
    head -n 2 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' && continue
    echo "$file:1: no line \"SPDX-License-Identifier: Apache-2.0\" at the top"
    status=1
  done < <(sources hpp cpp h inl cu cuh cmake sh c txt py; ls CMakeLists.txt pyproject.toml cmake/* .ci/run;
           grep -rl '^#!' tools)
  return $status
}

# The headings of a document, as links name them.
anchors() {
  sed -nE 's/^#+ +//p' "$1" | tr '[:upper:]' '[:lower:]' | sed -E 's/[^a-z0-9 _-]//g; s/ /-/g'
}

# Targets of Markdown links, and words in back quotes that start with one of our folders.
links() {
  local file line target anchor status=0
  while IFS=: read -r file line target; do
    anchor=
    case $target in
      '`'*) target=$(tr -d '`' <<<"$target") ;;
      *)
        target=$(sed -E 's/^\]\(//; s/\)$//' <<<"$target")
        if [[ $target == *#* ]]; then anchor=${target#*#}; fi
        target=${target%%#*}
        target=${target:+$(dirname "$file")/$target}
        target=${target:-$file}
        ;;
    esac
    if ! compgen -G "$target" >/dev/null; then
      echo "$file:$line: $target does not exist"
      status=1
    elif [[ -n $anchor && $target == *.md ]] && ! anchors "$target" | grep -qxF -e "$anchor"; then
      echo "$file:$line: $target has no heading #$anchor"
      status=1
    fi
  done < <(grep -noE '\]\([^):]+\)|`(include|mapping|tasks|runtime|python|tools|tests|docs|cmake)/[^` ]*`' \
             ./*.md docs/*.md docs/*/*.md)
  return $status
}

# A sentence ends at ".", "!" or "?", at the end of a list item, of a table cell or of a paragraph. A piece of
# code is one word; what has neither letter nor digit is none.
prose() {
  awk '
    function breach(line, text) { print FILENAME ":" line ": " text; bad = 1 }
    function words(text,    n, i, count, parts) {
      n = split(text, parts, /[ \t]+/)
      for (i = 1; i <= n; ++i) count += parts[i] ~ /[[:alnum:]]/
      return count
    }
    function check(text, line,    n, i, count, parts) {
      gsub(/`[^`]*`/, "code", text)
      gsub(/\]\([^)]*\)/, "", text)  # of a link the text counts, not where it leads
      n = split(text, parts, /[.!?][)"*_]*([ \t]+|$)/)
      for (i = 1; i <= n; ++i)
        if ((count = words(parts[i])) > 30)
          breach(line, "a sentence of " count " words: \"" substr(parts[i], 1, 60) "...\"")
    }
    function flush() { if (paragraph != "") check(paragraph, first); paragraph = "" }
    FNR == 1 { fenced = 0 }
    /^[ \t]*```/ { flush(); fenced = !fenced; next }
    length > 100 && !/^[ \t]*\|/ && !/\]\([^)]*\)/ && !/https?:/ { breach(FNR, length " columns") }
    fenced { next }
    /^[ \t]*$/ || /^#/ || /^<!--/ { flush(); next }
    /^[ \t]*\|/ { flush(); n = split($0, cells, "|"); for (i = 1; i <= n; ++i) check(cells[i], FNR); next }
    /^[ \t]*([-*]|[0-9]+\.) / { flush(); sub(/^[ \t]*([-*]|[0-9]+\.) /, "") }
    { if (paragraph == "") first = FNR; paragraph = paragraph " " $0 }
    END { flush(); exit bad }' "$@"
}
prose_of_all() {
  local file status=0
  for file in ./*.md docs/*.md docs/*/*.md; do prose "$file" || status=1; done
  return $status
}

performance() {
  if ! command -v python3 >/dev/null; then
    echo "SKIPPED: python3 is not installed"
    exit 77
  fi
  tools/performance_page check
}

format() {
  local tool=clang-format-14
  command -v $tool >/dev/null || tool=clang-format
  if ! $tool --version 2>/dev/null | grep -q 'version 14\.'; then
    echo "SKIPPED: clang-format 14 is not installed, and other versions format differently"
    exit 77
  fi
  sources hpp cpp h inl c cu cuh | xargs $tool --dry-run -Werror
}

case "${1-}" in
  dependencies | core | operator | licence | links | performance | format) "$1" ;;
  prose) prose_of_all ;;
  *) sed -n 's/^#   //p' "$0" >&2; exit 2 ;;
esac

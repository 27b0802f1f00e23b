#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Kills tuning processes at random moments, and looks for every measurement that they acknowledged.
#
#   kill_tune.sh MEGACONV [KILLS]   default: 20 kills, two writers at a time into one database
#
# A writer acknowledges a measurement in its debug log ("kept ID"), after it was added. After every
# kill the database must open, pass SQLite's own check, and have all of them. Needs the sqlite3 command.
# Exit status: 0 nothing lost, 1 something is, 77 skipped.
set -euo pipefail

megaconv=$1
kills=${2-20}
command -v sqlite3 >/dev/null || { echo "SKIPPED: no sqlite3 command"; exit 77; }
[[ $("$megaconv" info) == *'plan database yes'* ]] || { echo "SKIPPED: this build has no SQLite"; exit 77; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
RANDOM=1  # the same moments in every run, as far as the machine lets them be

# Starts a writer; its process id is in $!.
start_writer() {
  MEGACONV_LOG_LEVEL=debug setsid "$megaconv" tune n1c16h6k16 --strategy random --evaluations 100000 \
    --samples 1 --min-ms 0 --finalists 0 --threads 1 --seed "$2" --database "$folder/plans.db" \
    >/dev/null 2>>"$folder/log$1" &
}

touch "$folder/log1" "$folder/log2"
for ((done = 0; done < kills;)); do
  start_writer 1 $((done + 1)); first=$!
  start_writer 2 $((done + 100001)); second=$!
  # Both shall have something to lose: they start slowly on a busy machine.
  for _ in {1..100}; do
    (($(grep -c kept "$folder/log1") >= done / 2 && $(grep -c kept "$folder/log2") > 0)) && break
    sleep 0.05
  done
  sleep "0.$(printf '%03d' $((RANDOM % 250)))"
  for victim in $first $second; do
    kill -9 "$victim" 2>/dev/null && done=$((done + 1))
    wait "$victim" 2>/dev/null || true
  done
  [[ -e $folder/plans.db ]] || continue  # killed before it began
  [[ $(sqlite3 "$folder/plans.db" 'PRAGMA integrity_check') == ok ]] || { echo "damaged after $done kills"; exit 1; }
  "$megaconv" tune show "$folder/plans.db" >/dev/null || { echo "does not open after $done kills"; exit 1; }
done

sed -n 's/.*kept \([0-9a-f]\{32\}\).*/\1/p' "$folder"/log? | sort >"$folder/acknowledged"
sqlite3 "$folder/plans.db" 'SELECT id FROM measurement' | sort >"$folder/rows"
lost=$(comm -23 "$folder/acknowledged" "$folder/rows" | wc -l)
echo "$done kills, $(wc -l <"$folder/acknowledged") measurements acknowledged, $lost lost"
# A run that acknowledged nothing proved nothing.
[[ $lost == 0 && -s $folder/acknowledged ]]

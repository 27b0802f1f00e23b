#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Answers `megaconv tune` from measurements that were exported, so that strategies can be compared
on the same numbers and without the device:

  megaconv tune export n1c64h56k64 -o all.jsonl
  megaconv tune n1c64h56k64 --measurer "tools/examples/replay_measurer.py all.jsonl" --database replay.db

A configuration that was not measured is refused. Of one measured more than once the least time counts.
"""
import json
import sys

KEYS = ("backend", "device", "driver", "build", "problem", "precision", "filters")


def main():
    table, keys = {}, {}
    with open(sys.argv[1]) as lines:
        for row in map(json.loads, lines):
            known = table.setdefault((row["problem"], row["configuration"]), row)
            if row["verdict"] == "right" and row["best_ms"] < known["best_ms"]:
                table[row["problem"], row["configuration"]] = row
            keys.setdefault(row["problem"], {name: row[name] for name in KEYS})
    problem = sys.argv[4]  # FILE tune measure PROBLEM ...
    print(json.dumps(keys[problem]), flush=True)
    for line in sys.stdin:
        configuration = json.loads(line)["configuration"]
        row = table.get((problem, configuration))
        if row is None:
            row = {"configuration": configuration, "verdict": "refused", "reason": "not in the table"}
        elif row["verdict"] == "right":
            row = dict(row, samples_ms=[row["best_ms"]])
        row.pop("id", None)
        print(json.dumps(row), flush=True)


main()

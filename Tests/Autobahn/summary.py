"""Counts what the Autobahn test suite reported:   summary.py REPORTS/index.json

Runs under Python 2.7 as the suite does, and under Python 3.
"""
from __future__ import print_function

import json
import sys
from collections import Counter, OrderedDict

GOOD = {"OK", "INFORMATIONAL"}


def main(path):
    with open(path) as file:
        agents = json.load(file)
    bad = []
    sections = OrderedDict()
    total = Counter()
    for cases in agents.values():
        for case in sorted(cases, key=lambda case: [int(part) for part in case.split(".")]):
            result = cases[case]
            outcomes = {"behavior": result["behavior"], "behaviorClose": result["behaviorClose"]}
            sections.setdefault(int(case.split(".")[0]), Counter())[result["behavior"]] += 1
            total[result["behavior"]] += 1
            if any(outcome not in GOOD for outcome in outcomes.values()):
                bad.append("%s: %s, closing %s" % (case, outcomes["behavior"], outcomes["behaviorClose"]))
    for section, counts in sections.items():
        print("%4d.*  %s" % (section, describe(counts)))
    print("  total  " + describe(total))
    for line in bad:
        print("NOT OK  " + line)
    return 1 if bad or not total else 0


def describe(counts):
    return ", ".join("%d %s" % (count, name) for name, count in counts.most_common())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

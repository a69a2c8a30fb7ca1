"""
Many faults, one after the other, on one graph; a line of JSON for each.

python -m faultlab.campaign --count 100 --seed 1 --backend trajectory --out results.jsonl
"""

import argparse
import dataclasses
import json
import os
from pathlib import Path

import numpy as np

from faultlab import trials
from faultlab.graph import Graph

COUNT = int(os.environ.get('EMPPI_FAULTS', '30'))  # that the tests inject
# where the arm stops by itself before the fault, or the machine stands still: counted, tried again
_TRIES = 4


def order(count, rng, backend):
    """Return which faults come when: all kinds equally often, kills oftener, in random order."""
    kinds = [fault for fault in trials.possible(backend) for _ in range(_weight(fault))]
    return [kinds[k % len(kinds)] for k in rng.permutation(count)]


def _weight(fault):
    return trials.KILLS if fault.name == 'kill' else 1


def main():
    """Run them."""
    parser = argparse.ArgumentParser()
    parser.add_argument('--count', type=int, default=20)
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--backend', default='trajectory')
    parser.add_argument('--out', type=Path, required=True)
    parser.add_argument('--only', default='')
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    faults = [f for f in order(options.count, rng, options.backend) if options.only in f.name]
    graph = Graph(options.backend)
    try:
        with options.out.open('w', encoding='utf-8') as out:
            for fault in faults:
                for _ in range(_TRIES):
                    result = trials.run(graph, fault, rng)
                    row = {**dataclasses.asdict(result), 'judged': result.judged}
                    out.write(json.dumps(row) + '\n')
                    out.flush()
                    if result.judged:
                        break
                graph.children.check()
    finally:
        graph.close()


if __name__ == '__main__':
    main()

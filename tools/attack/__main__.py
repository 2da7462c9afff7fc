"""Attack the program with mutated inputs, kills and disk errors, and print one report; exit code 1 where a promise was not kept.

    python tools/attack [--mutations 20000] [--kills 1000] [--errors 500] [--first 0] [--seed 1]

Where one night is too short, parts of it are other numbers: those from --first on. Each half is a script beside this one that prints a JSON
object with a list of ``failures`` as its last line.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path


def run_half(script: Path, options: list[str]) -> dict[str, object]:
    """Return the report of one half; one that ends without a report has failed."""
    finished = subprocess.run([sys.executable, str(script), *options], stdout=subprocess.PIPE, text=True, check=False)
    try:
        report: dict[str, object] = json.loads(finished.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        return {"failures": [f"{script.name} ended with {finished.returncode} and without a report"]}
    return report


def main() -> int:
    """Run both halves and print what they found."""
    parser = argparse.ArgumentParser(prog="python tools/attack", description="mutated inputs, kills and disk errors")
    parser.add_argument("--mutations", default="20000", metavar="N", help="damaged inputs (default: %(default)s)")
    parser.add_argument("--kills", default="1000", metavar="N", help="killed runs (default: %(default)s)")
    parser.add_argument("--errors", default="500", metavar="N", help="disk errors (default: %(default)s)")
    parser.add_argument("--first", default="0", metavar="N", help="number of the first case of each kind (default: %(default)s)")
    parser.add_argument("--seed", default="1", help="another seed gives other cases (default: %(default)s)")
    options = parser.parse_args()
    halves = {"mutations.py": ["--cases", options.mutations], "kills.py": ["--kills", options.kills, "--errors", options.errors]}
    n_failures = 0
    for name, numbers in halves.items():
        script = Path(__file__).parent / name
        report = run_half(script, [*numbers, "--first", options.first, "--seed", options.seed])
        failures = report.pop("failures")
        print(f"== {name}: {json.dumps(report)}")
        for failure in failures if isinstance(failures, list) else []:
            print(f"   {failure}")
            n_failures += 1
    print(f"== {n_failures} promises were not kept")
    return 1 if n_failures else 0


if __name__ == "__main__":
    sys.exit(main())

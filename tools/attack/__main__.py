"""Attack the program with mutated inputs, kills and disk errors, and print one report; exit code 1 where a promise was not kept.

    python tools/attack [--seed 1] [kills.py ...]

Each half is a script beside this one that prints a JSON object with a list of ``failures`` as its last line.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

HALVES = {"mutations.py": ["--cases", "20000"], "kills.py": ["--kills", "1000", "--errors", "500"]}


def run_half(script: Path, options: list[str]) -> dict[str, object]:
    """Return the report of one half; one that ends without a report has failed."""
    finished = subprocess.run([sys.executable, str(script), *options], stdout=subprocess.PIPE, text=True, check=False)
    try:
        report: dict[str, object] = json.loads(finished.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        return {"failures": [f"{script.name} ended with {finished.returncode} and without a report"]}
    return report


def main() -> int:
    """Run the halves that were named, or all, and print what they found."""
    parser = argparse.ArgumentParser(prog="python tools/attack", description="mutated inputs, kills and disk errors")
    parser.add_argument("halves", nargs="*", default=sorted(HALVES), choices=[*sorted(HALVES), []], metavar="HALF")
    parser.add_argument("--seed", default="1")
    options = parser.parse_args()
    n_failures = 0
    for name in options.halves:
        script = Path(__file__).parent / name
        report = run_half(script, [*HALVES[name], "--seed", options.seed])
        failures = report.pop("failures")
        print(f"== {name}: {json.dumps(report)}")
        for failure in failures if isinstance(failures, list) else []:
            print(f"   {failure}")
            n_failures += 1
    print(f"== {n_failures} promises were not kept")
    return 1 if n_failures else 0


if __name__ == "__main__":
    sys.exit(main())

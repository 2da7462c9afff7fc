"""Attack the command ``qmcif`` with damaged inputs and write a report; the exit code is 1 where anything was found.

The last line printed is a JSON object with the list of ``failures``.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from pathlib import Path

import mutation_attack


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000, metavar="N", help="damaged inputs (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="another seed gives other cases (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="number of the first case, to run single ones again")
    parser.add_argument("--processes", type=int, default=2, metavar="N", help="commands at once (default: %(default)s)")
    parser.add_argument("--report", type=Path, default=Path("attack-report.md"), help="where the report goes (default: %(default)s)")
    options = parser.parse_args()
    started, n_done = time.monotonic(), 0

    def count() -> None:
        nonlocal n_done
        n_done += 1
        if n_done % 500 == 0:
            print(f"{n_done} of {options.cases} damaged inputs, {time.monotonic() - started:.0f} s", flush=True)

    numbers = range(options.first, options.first + options.cases)
    tally = mutation_attack.attack(numbers, seed=options.seed, n_processes=options.processes, on_case=count)
    report = describe(tally, seed=options.seed, seconds=time.monotonic() - started)
    options.report.write_text(report, encoding="utf-8")
    print(report)
    failures = [f"case {fault.number} ({fault.kind}, {fault.change}): {fault.verdict}" for fault in tally.faults]
    print(json.dumps({"cases": tally.n_cases, "seconds": round(time.monotonic() - started), "failures": failures}))
    return 1 if tally.faults else 0


def describe(tally: mutation_attack.Tally, *, seed: int, seconds: float) -> str:
    """Return the report in words."""
    kinds = list(dict.fromkeys(kind for kind, _ in sorted(tally.outcomes)))
    lines = [
        "# Attack",
        "",
        f"{tally.n_cases} damaged inputs, seed {seed}, in {seconds:.0f} s on {platform.machine()}, Python {platform.python_version()}: "
        f"{len(tally.faults)} faults; at most {tally.longest_cpu_seconds:.1f} CPU s and {tally.largest_bytes / 10**6:.0f} MB "
        "(libraries included) for one of them.",
        "",
        "| format | fused | refused | faults |",
        "|---|---|---|---|",
    ]
    for kind in kinds:
        total = sum(number for (its, _), number in tally.outcomes.items() if its == kind)
        fused, refused = (tally.outcomes[kind, verdict] for verdict in ("fused", "refused"))
        lines.append(f"| {kind} | {fused} | {refused} | {total - fused - refused} |")
    for fault in tally.faults:
        lines += ["", f"## Case {fault.number}: {fault.verdict}", "", f"{fault.kind}, {fault.change}", "", "```", fault.told.strip(), "```"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())

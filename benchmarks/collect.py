"""Collects the rows of all benchmarks in one table and in build/bench.json.

python benchmarks/collect.py
"""

from __future__ import annotations

import json

import measuring


def main() -> None:
    """Reads build/bench/*.json, and skips entries that are not ratios."""
    rows = []
    for path in sorted(measuring.OUTPUT.glob("*.json")):
        content = json.loads(path.read_text())
        rows += [
            {key: row[key] for key in ("name", "ratio", "spread", "aim")}
            for row in content
            if isinstance(row, dict) and "ratio" in row
        ]
    print(measuring.table(rows))
    path = measuring.ROOT / "build" / "bench.json"
    path.write_text(json.dumps(rows, indent=2) + "\n")
    print(f"Written to {path.relative_to(measuring.ROOT)}")


if __name__ == "__main__":
    main()

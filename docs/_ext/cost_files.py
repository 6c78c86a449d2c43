"""The files in which the costs of calls are kept: reports of benchmarks, and counts of launches."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
#: The folder of the reports of benchmarks, with their tables and plots.
RESULTS = ROOT / "conformance/benchmarks/results"
#: The launches and bytes of calls as compiled for a GPU.
COUNTED = ROOT / "conformance/machine_code/costs.json"
#: How the names of calls of the suite begin. They have no size that a user would have.
SAMPLE = "sample-"


def reports() -> list[Path]:
    """Returns the reports of benchmarks."""
    return sorted(RESULTS.glob("*.json"))


def of_benchmarks(counts: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the counted cases whose sizes are those of benchmarks, by name."""
    return {name: case for name, case in counts["cases"].items() if not name.startswith(SAMPLE)}


def read_counts(path: Path = COUNTED) -> dict[str, Any]:
    """Returns the document of the counts."""
    counts: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return counts

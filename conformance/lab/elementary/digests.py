"""Writes the digests of the elementary functions: ``python -m conformance.lab.elementary.digests``.

``reference`` computes the rounded results. The functions themselves compute the results in float64:
tests expect the same bits of these everywhere, and no accuracy.
"""

from __future__ import annotations

import json

from conformance.lab.elementary import reference
from impl._exact.elementary import FUNCTIONS
from impl.tests.exact import elementary_samples as samples
from impl.tests.exact.test_elementary import UNSEALED


def main() -> None:
    """Writes the file of digests."""
    known = {}
    for name in sorted(FUNCTIONS):
        for operands, parameters in samples.samples(name):
            entry = {"rounded": samples.digest(reference.correct(name, *operands, **parameters))}
            if name not in UNSEALED and operands[0].dtype != samples.DOUBLE:
                double, _ = samples.with_double(name, operands, parameters)
                entry["float64"] = samples.digest(double)
            known[samples.key(name, operands, parameters)] = entry
    text = json.dumps(known, indent=1)
    samples.DIGESTS.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Writes the digests of the elementary functions: ``python -m conformance.lab.elementary.digests``.

``reference`` computes the rounded results. The functions themselves compute the results in float64:
tests expect the same bits of these everywhere, and no accuracy.
"""

from __future__ import annotations

import json

import jax
import numpy as np

from conformance.lab.elementary import reference
from impl._exact import arithmetic
from impl._exact.elementary import FUNCTIONS
from impl.tests.exact import elementary_samples as samples
from impl.tests.exact.test_elementary import UNSEALED


def main() -> None:
    """Writes the file of digests."""
    known = {}
    for name in sorted(FUNCTIONS):
        for operands, parameters in samples.samples(name):
            entry = {"rounded": samples.digest(reference.correct(name, *operands, **parameters))}
            if name not in UNSEALED:
                double, _ = samples.with_double(name, operands, parameters)
                entry["float64"] = samples.digest(double)
            known[samples.key(name, operands, parameters)] = entry
    for name in ("exp", "log"):
        (operand,), _ = samples.samples(name)[0]
        with arithmetic.wide():
            result = np.asarray(jax.jit(FUNCTIONS[name])(operand.astype(np.float64)))
        known[f"{name} float64"] = {"rounded": samples.digest(result)}
    text = json.dumps(known, indent=1)
    samples.DIGESTS.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""The panel order on a CPU, with the work cut by the sizes of caches."""

import functools

import jax
import numpy as np
import pytest

from impl._families import reductions
from impl._lowerings import scatter_accumulate_cpu
from impl.tests.lowerings._contributions import contributions, in_panel_order
from impl.tests.support.bits import assert_same_bits


@pytest.mark.parametrize(
    ("panel_results", "elements", "size", "n"),
    [
        (2048, 65536, 5, 5000),  # two panels in a group; the last panel is short
        (16384, 64, 5, 2100),  # a panel in chunks; the last chunk starts earlier
        (16384, 16, 1500, 2600),  # a long panel in chunks
        (1, 65536, 5, 2048),  # one panel at a time
        (16384, 65536, 3, 5000),  # few destinations: interleaved panels
        (16384, 65536, 3, 7),  # less than a panel
        (16384, 65536, 3, 1024),  # one panel
    ],
)
def test_a_cpu_cuts_its_work_by_the_size_of_its_cache(
    monkeypatch, panel_results, elements, size, n
):
    monkeypatch.setattr(scatter_accumulate_cpu, "_PANEL_RESULTS", panel_results)
    monkeypatch.setattr(scatter_accumulate_cpu, "_CONTRIBUTIONS", elements)
    ordered = functools.partial(scatter_accumulate_cpu.ordered_cpu, reduction=reductions.ADD)
    for outer, kind in ((1, "shared"), (2, "rows"), (1, "own")):
        args = contributions(outer, size, 2, n, kind=kind)
        assert_same_bits(jax.jit(ordered)(*args), in_panel_order(*args, np.add))

"""The table of the engines has the engines of the spec."""

import engine_tables
from spec.engines import engines


def test_each_engine_has_a_line() -> None:
    lines = list(engine_tables.engine_lines())
    assert [line.split("`")[1] for line in lines[2:]] == list(engines())
    assert lines[-1].endswith("| `tpu` |")
    assert "compute capability 8.6, 8.7, 8.9" in lines[-2]

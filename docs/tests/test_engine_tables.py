"""The tables of the engines have the engines of the spec, and costs by the engine of a device."""

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest

import cost_files
import cost_tables
import engine_tables
from impl._exact.products.approximation import Bits
from impl._soft_float64 import products
from spec.engines import engines


def test_each_engine_has_a_line() -> None:
    lines = list(engine_tables.engine_lines())
    assert [line.split("`")[1] for line in lines[2:]] == list(engines())
    assert lines[-1].endswith("| `tpu` |")
    assert "compute capability 8.6, 8.7, 8.9" in lines[-2]


def test_the_engine_decides_the_cost_of_products() -> None:
    costs = {each.device: each for each in engine_tables.costs()}
    ada, hopper = costs["RTX 4090"], costs["H200"]
    assert (ada.engine, hopper.engine) == ("int8", "float64")
    assert hopper.products == hopper.float64
    pairs = 21 * (84.2e9 - 49.6e9) + 28 * 49.6e9
    assert ada.products == ada.int8 == pytest.approx(2 * pairs / 660e12 * 1000)
    assert ada.float64 == pytest.approx(2 * 84.2e9 / 1.29e12 * 1000)
    assert "| RTX 4090 | `int8` | 2 | 131 | 6.4 | 11 |" in engine_tables.cost_lines()


def test_the_engine_makes_as_many_products_of_digits() -> None:
    data = tomllib.loads(engine_tables.RATES.read_text(encoding="utf-8"))["int8"]
    bits = Bits.of(np.float32, np.float32, np.float32)
    for name, terms in (("products", 1024), ("products_of_long", 1025)):
        digits = products.digits_for(bits, terms)
        assert data[name] == digits * (digits + 1) // 2


def test_each_program_for_a_tpu_has_a_line_for_each_chip(tmp_path: Path) -> None:
    plain = {"operations": 4, "fusions": 0, "bytes": 64, "code": 2048}
    portable = {"operations": 1200, "fusions": 3, "bytes": 96, "code": 4096}
    cases = {
        "running_sum": {
            "v5e": {"status": "compiled", "plain": plain, "portable": portable},
            "v6e": {"status": "time limit", "limit": 600.0},
        },
        "step": {"v6e": {"status": "out of memory", "gib": 24}},
    }
    file = tmp_path / "tpu.json"
    file.write_text(json.dumps({"jax": "1", "libtpu": "2", "cases": cases}), encoding="utf-8")
    assert list(engine_tables.programs_for_tpu(file))[-3:] == [
        "| running sum | v5e | 1,200 (4) | 3 (0) | 96 (64) | 4,096 (2,048) |",
        "| running sum | v6e | time limit of 600 s |  |  |  |",
        "| step | v6e | out of memory (24 GiB) |  |  |  |",
    ]


def test_each_program_of_an_engine_is_compared_with_float64(tmp_path: Path) -> None:
    other = {"launches": 8, "bytes": 2960, "float64": 3600, "int8": 0}
    own = {"launches": 38, "bytes": 30550, "float64": 980, "int8": 94370}
    cases = {"a_product for l40s": {"plain": {"launches": 1}, "float64": other, "int8": own}}
    file = tmp_path / "engines.json"
    file.write_text(json.dumps({"jax": "1", "cases": cases}), encoding="utf-8")
    assert list(engine_tables.programs_by_engine(file))[-1] == (
        "| a product for l40s | `int8` | 38 (8) | 30,550 (2,960) | 980 (3,600) | 94,370 |"
    )
    assert cost_tables.all_tables()["engine_steps"].file == cost_files.ENGINES


def test_the_page_can_name_the_table() -> None:
    title, *lines = cost_tables.all_tables()["tpu"].text()
    assert title == "# Portable programs compiled for a TPU"
    cases = json.loads(cost_files.TPU.read_text(encoding="utf-8"))["cases"]
    assert sum(line.startswith("| ") for line in lines) == 2 + sum(map(len, cases.values()))

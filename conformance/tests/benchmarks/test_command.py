"""The tables of the benchmarks: their rows and sides, at small sizes. No test checks a time."""

import importlib.util
import re

import pytest

from conformance.benchmarks import __main__ as command
from conformance.benchmarks import (
    convs,
    elementary,
    exact_products,
    exact_sums,
    libraries,
    losses,
    portable,
    programs,
    recurrent,
    scans,
    scatter,
    selection,
    sparse,
    spatial,
    timing,
)
from impl.tests.support import user_programs

pytestmark = pytest.mark.once


@pytest.fixture(autouse=True)
def small_sizes(monkeypatch):
    monkeypatch.setattr(scans, "SIZES", {"cumsum": ((1, 3000),), "cummax": ((3, 50),)})
    monkeypatch.setattr(elementary, "SIZES", (100,))
    monkeypatch.setattr(elementary, "OPS", {name: elementary.OPS[name] for name in ("exp", "div")})
    monkeypatch.setattr(scatter, "SIZES", ((20, 3000, 1), (5, 300, 2)))
    monkeypatch.setattr(exact_sums, "SCATTERS", ((5, 300, 2),))
    monkeypatch.setattr(exact_sums, "SUMS", (((40, 3), (0,)),))
    monkeypatch.setattr(portable, "PROGRAMS", {})
    monkeypatch.setattr(portable, "SCATTERS", ((300, 2, 5),))
    monkeypatch.setattr(selection, "SIZES", ((3, 40),))
    sizes = {"nll_loss": (2, 3, 4), "cross_entropy": (5, 3), "ctc_loss": (6, 2, 3)}
    monkeypatch.setattr(losses, "SIZES", sizes)
    monkeypatch.setattr(losses, "LABELS", 2)
    monkeypatch.setattr(libraries, "NAMES", ("equinox_mnist",))
    monkeypatch.setattr(libraries, "SCALE", 1)
    monkeypatch.setattr(programs, "PROGRAMS", (user_programs.sampler,))
    monkeypatch.setattr(recurrent, "OPS", {"lstm": 4})
    tiny = recurrent.Size(2, 1, 2, 3, 1, bidirectional=True)
    monkeypatch.setattr(recurrent, "SIZES", {"tiny": tiny})
    monkeypatch.setattr(sparse, "SIZES", ((2, 8, 6, 4, 3),))
    monkeypatch.setattr(spatial, "SIZES", {"tiny": (1, 2, 8, 8)})
    monkeypatch.setattr(exact_products, "SIZES", (8,))
    monkeypatch.setattr(exact_products, "IMAGES", ((1, 4, 4, 2),))
    monkeypatch.setattr(convs, "SIZES", {"tiny": convs.Size(1, 2, 8, 3, 3, 2, 1)})
    ops = {name: spatial.OPS[name] for name in ("avg_pool2d(3, 2, 1)", "grid_sample")}
    monkeypatch.setattr(spatial, "OPS", ops)


@pytest.mark.parametrize(
    ("module", "rows"),
    [
        (
            losses,
            [
                f"{op} | {shape} | {direction}"
                for op, shape in (
                    ("nll_loss", [2, 3, 4]),
                    ("cross_entropy", [5, 3]),
                    ("ctc_loss", [6, 2, 3]),
                )
                for direction in ("forward", "forward and backward")
            ],
        ),
        pytest.param(
            libraries,
            [f"equinox_mnist | {work}" for work in ("step", "trace and lower")],
            marks=pytest.mark.skipif(
                importlib.util.find_spec("equinox") is None, reason="needs the group programs"
            ),
        ),
        (
            recurrent,
            [
                f"lstm | tiny, of 3 | [2, 1, 2] | {direction}"
                for direction in ("forward", "forward and backward")
            ],
        ),
        (programs, ["sampler | run", "sampler | trace and lower"]),
        (portable, ["300 x 2 into 5 | run", "300 x 2 into 5 | compile"]),
        (elementary, ["exp | 100", "div | 100"]),
        (scans, ["cumsum | 1 | 3,000", "cummax | 3 | 50"]),
        (scatter, ["20 | 3,000 | 1", "5 | 300 | 2"]),
        (exact_sums, ["scatter 300 of 2 into 5", "sum [40, 3] over [0]"]),
        (selection, [f"{op} | [3, 40]" for op in selection.OPS]),
        (
            sparse,
            [
                f"[2, 8, 6], 1 in 4, by [2, 6, 3] | {direction}"
                for direction in ("forward", "backward")
            ],
        ),
        (
            spatial,
            [
                f"{op} | tiny, [1, 2, 8, 8] | {direction}"
                for op in ("avg_pool2d(3, 2, 1)", "grid_sample")
                for direction in ("forward", "backward")
            ],
        ),
        (
            exact_products,
            [
                f"{product} | {data}"
                for data in ("Gaussian", "24 binades")
                for product in ("[8, 8] by [8, 8]", "[1, 4, 4, 2], 3 x 3")
            ],
        ),
        (
            convs,
            [
                f"tiny | [1, 2, 8, 8], [3, 2, 3, 3], stride 2 | {direction}"
                for direction in ("forward", "backward")
            ],
        ),
    ],
    ids=lambda value: getattr(value, "__name__", "").rpartition(".")[2],
)
def test_a_table_names_the_machine_the_sides_and_how_to_repeat_it(module, rows, capsys, tmp_path):
    name, file = module.__name__.rpartition(".")[2], tmp_path / "table.md"
    assert command.main([name, "--rounds", "2", "--write", str(file)]) == 0
    output = capsys.readouterr().out
    assert file.read_text() == output
    assert timing.machine() in output
    assert f"python -m conformance.benchmarks {name} --times 1 --rounds 2" in output
    table = [line for line in output.splitlines() if re.match(r"\| .*\d \(\d", line)]
    assert len(table) == len(rows)
    for line, row in zip(table, rows, strict=True):
        assert line.startswith(f"| {row} | ")
    assert module.BASE in output
    assert "ordered" in output


@pytest.mark.parametrize(
    "arguments", [["--times", "0"], ["--rounds", "0"], ["--write", "no/such/folder/t.md"]]
)
def test_bad_options_are_refused_before_anything_is_measured(arguments, capsys, monkeypatch):
    monkeypatch.setattr(scatter, "measure", None)
    with pytest.raises(SystemExit) as error:
        command.main(["scatter", *arguments])
    assert error.value.code == 2
    assert arguments[0] in capsys.readouterr().err

"""The files and lines of ops, rows, samples and promises."""

import functools
import types
from pathlib import Path

import pytest

import impl
import spec
from conformance.reporting import sources
from conformance.tests.reporting._records import line_of


@pytest.mark.parametrize(
    ("package", "op", "file"),
    [
        ("cases", "nn.functional.max_pool2d", "conformance/cases/max_pools.py"),
        ("cases", "argsort", "conformance/cases/selections.py"),
        ("promises", "Generator", "conformance/promises/random.py"),
        ("cases", "Generator", "conformance/cases"),
    ],
)
def test_samples_and_promises_are_in_the_file_of_the_family(package, op, file):
    assert sources.module(package, op) == file


def test_an_op_without_source_is_named():
    row, namespace = spec.load().row("R0001"), types.SimpleNamespace(index_add=print)
    lines = list(sources.to_edit(row, "index_add", namespace))
    assert lines[0] == "edit:  the implementation of index_add, if the implementation is wrong"


def test_a_wrapped_function_is_found_and_a_path_elsewhere_is_whole(tmp_path):
    @functools.wraps(impl.index_add)
    def wrapped(*args, **options):
        return impl.index_add(*args, **options)

    (first, *_) = sources.to_edit(None, "index_add", types.SimpleNamespace(index_add=wrapped))
    assert line_of(first) == ("impl/ops/_scatters.py", "@eager.compiled")
    assert sources._shown(tmp_path / "a.py") == str(tmp_path / "a.py")


def test_a_path_outside_a_checkout_is_whole(monkeypatch, tmp_path):
    monkeypatch.setattr(sources, "_ROOT", tmp_path)
    (first, *_) = sources.to_edit(None, "index_add", impl)
    assert first.startswith(f"edit:  {Path(spec.__file__).parents[1]}/impl/ops/_scatters.py:")

"""The findings of ``impl.audit`` against the racing scatters of the program lowered for CUDA.

The lowered text is read here by itself, without the audit's facts: two readers of one program.
"""

import math
import re

import pytest

import impl
from impl.tests.support.user_programs import PROGRAMS

_SCATTER = re.compile(
    r'"stablehlo\.(scatter|select_and_scatter)"\(.*?<\{(.*?)\}> \(\{.*?\}\) : \((.*?)\) ->',
    re.DOTALL,
)
_FLOATS = ("f16", "bf16", "f32", "f64")


def numbers(attributes, name):
    match = re.search(rf"\b{name} = (?:array<i64: )?\[?([\d, ]*)", attributes)
    return [int(number) for number in re.findall(r"\d+", match.group(1))] if match else []


def shape(tensor):
    """The lengths of the axes, and the type of the elements, of ``tensor<4x2xf32>``."""
    *lengths, dtype = re.search(r"tensor<(.*)>", tensor).group(1).split("x")
    return [int(length) for length in lengths], dtype


def in_jax(tensor):
    """The type as JAX writes it: ``f32[4,2]``."""
    lengths, dtype = shape(tensor)
    return f"{dtype}[{','.join(map(str, lengths))}]"


def racing_scatters(text):
    """The operand types of each scatter of floats in which two updates may meet."""
    racing = set()
    for kind, attributes, types in _SCATTER.findall(text):
        tensors = re.findall(r"tensor<[^>]*>", types)
        if shape(tensors[0])[1] not in _FLOATS:
            continue
        if kind == "select_and_scatter":
            windows = numbers(attributes, "window_dimensions")
            strides = numbers(attributes, "window_strides")
            if any(s < w for s, w in zip(strides, windows, strict=True)):
                racing.add(in_jax(tensors[1]))  # The operand is padded by the lowering.
            continue
        ignored = [
            *numbers(attributes, "scatter_indices_batching_dims"),
            *numbers(attributes, "index_vector_dim"),
        ]
        lengths = shape(tensors[1])[0]
        updates = math.prod(n for axis, n in enumerate(lengths) if axis not in ignored)
        if "unique_indices = false" in attributes and updates > 1:
            racing.add(" ".join(map(in_jax, tensors)))
    return racing


def compared(finding):
    """The operand types of a finding, as ``racing_scatters`` has them."""
    return finding.shapes.split()[0] if "select" in finding.primitive else finding.shapes


@pytest.mark.parametrize("build", PROGRAMS)
def test_the_findings_are_the_racing_scatters(build):
    step, args = build()
    report = impl.audit(step)(*args)
    scatters = [finding for finding in report.select("varies") if "scatter" in finding.primitive]
    text = impl.testing.lower(step, *args).as_text()
    assert scatters  # Each of the programs races.
    assert set(map(compared, scatters)) == racing_scatters(text)
    # Without the options of ``impl.jit`` XLA may pick the kernels of products by timing.
    products = {"lax.dot_general", "lax.conv_general_dilated"}
    assert {finding.primitive for finding in report.select("unknown")} <= products
    sources = {finding.source.partition(":")[0] for finding in report.findings}
    assert sources == {"impl/tests/support/user_programs.py"}

    with impl.deterministic():
        on = impl.audit(impl.jit(step))(*args)
    assert on.ok
    ordered = [f.shapes for f in on.select("deterministic") if f.races]
    assert ordered == [f.shapes for f in scatters]

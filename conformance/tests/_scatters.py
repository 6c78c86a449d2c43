"""Reads the racing scatters of a lowered program, without the audit's facts.

The audit and this module are two readers of one program, which the tests compare.
"""

import math
import re

_SCATTER = re.compile(
    r'"stablehlo\.(scatter|select_and_scatter)"\(.*?<\{(.*?)\}> \(\{(.*?)\}\) : \((.*?)\) ->',
    re.DOTALL,
)
_FLOATS = ("f16", "bf16", "f32", "f64")
#: The bodies whose result depends on no order: XLA computes extremes of floats through integers.
_EXTREME = re.compile(r"stablehlo\.(maximum|minimum) ")


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
    for kind, attributes, body, types in _SCATTER.findall(text):
        tensors = re.findall(r"tensor<[^>]*>", types)
        if shape(tensors[0])[1] not in _FLOATS or _is_extreme(kind, body):
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


def _is_extreme(kind, body):
    return kind == "scatter" and _EXTREME.search(body) is not None


def compared(finding):
    """The operand types of a finding, as ``racing_scatters`` has them."""
    return finding.shapes.split()[0] if "select" in finding.primitive else finding.shapes

"""The texts of lowered programs, and the scatters in them that race on a GPU."""

import math
import re

import impl
from impl._core.numerics import ANY_ORDER

#: Options of compilation, with which large programs compile in half of the time.
OPTIONS = {"xla_backend_optimization_level": 0}
#: A scatter: its kind, attributes, body, and the types of its operands.
_SCATTER = re.compile(
    r'"stablehlo\.(scatter|select_and_scatter)"\(.*?<\{(.*?)\}> '
    r"\(\{(.*?)\}\) (\{[^\n]*\} )?: \((.*?)\) ->",
    re.DOTALL,
)
#: Bodies whose result is the same in every order.
_ORDERLESS = re.compile(
    r"stablehlo\.(?:maximum|minimum) |stablehlo\.(?:add|multiply) .*tensor<u?i\d+>"
)


def text(function, *args, platform="cpu", debug=False):
    """Returns the StableHLO of a function for a platform."""
    return impl.testing.lower(function, *args, platform=platform).as_text(debug_info=debug)


def races(text):
    """Returns the operand types of each scatter whose result depends on the order of its updates.

    They are as an audit writes them: ``f32[4] i32[9,1] f32[9]``; for the gradient of a pool, the
    type of the cotangent alone. The facts of the audit are not used, since tests compare the two.
    """
    found = []
    for kind, attributes, body, marks, types in _SCATTER.findall(text):
        shapes = [_shape(tensor) for tensor in re.findall(r"tensor<([^>]*)>", types)]
        if _ORDERLESS.search(body) or "unique_indices = true" in attributes:
            continue
        if ANY_ORDER in marks:  # A bound of the errors decides how the result is rounded.
            continue
        if kind == "select_and_scatter":
            sizes = _numbers(attributes, "window_dimensions")
            strides = _numbers(attributes, "window_strides") or [1] * len(sizes)
            if any(stride < size for size, stride in zip(sizes, strides, strict=True)):
                found.append(_in_jax(*shapes[1]))  # The operand is padded by the lowering.
            continue
        not_counted = {
            *_numbers(attributes, "scatter_indices_batching_dims"),
            *_numbers(attributes, "index_vector_dim"),
        }
        lengths = [n for axis, n in enumerate(shapes[1][0]) if axis not in not_counted]
        if math.prod(lengths) > 1:
            found.append(" ".join(_in_jax(*shape) for shape in shapes))
    return found


def compared(finding):
    """Returns the operand types of an audit's finding, as ``races`` has them."""
    return finding.shapes.split()[0] if "select" in finding.primitive else finding.shapes


def _numbers(attributes, name):
    match = re.search(rf"\b{name} = (?:array<i64: )?\[?([\d, ]*)", attributes)
    return [int(number) for number in re.findall(r"\d+", match[1])] if match else []


def _shape(tensor):
    *lengths, dtype = tensor.split("x")
    return [int(length) for length in lengths], dtype


def _in_jax(lengths, dtype):
    return f"{dtype.replace('ui', 'u')}[{','.join(map(str, lengths))}]"

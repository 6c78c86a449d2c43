"""The forms of tokens: each draws the operands and the parameters of an equation.

A form takes the pool of variables, the dtype of the first operand, and the options of the token's
table. For example, a reversal of a variable of two axes, and the line that it becomes::

    same_shape(pool, "float32", {})    equation(x.aval, x, axis=1, by=2)    v1 = lax.rev(v0, (1,))
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conformance.hunt.pool import Pool, Variable, equation
from conformance.hunt.program import Aval

#: Real floats whose operations and functions have a portable path.
FLOATS = ("float32", "bfloat16", "float16")
#: A size in a parameter: the rows of the first operand, of which a device may have a part.
ROWS = "ROWS"
#: The terms of a sum in stages, or of a running sum in blocks.
_MANY = 1100

Options = Mapping[str, Any]

# Operations element by element.


def unary(pool: Pool, dtype: str, options: Options) -> Variable:
    """Draws an operand, ``others`` of its type, and one of ``numbers``."""
    x = pool.pick(dtype, nonempty=options.get("nonempty", False))
    others = [pool.like(x.aval) for _ in range(options.get("others", 0))]
    params = {"number": pool.dice.choice(options["numbers"])} if "numbers" in options else {}
    return equation(x.aval.with_dtype(options.get("to", dtype)), x, *others, **params)


def function(pool: Pool, dtype: str, options: Options) -> Variable:
    """Draws an operand; some have arguments near 0 and 1, where values are near the middle."""
    if pool.is_bundle:
        x = pool.argument(Aval((64,), dtype))
    elif pool.dice.happens(30):
        x = pool.argument(Aval((60,), dtype), kind="ties")
    else:
        return unary(pool, dtype, options)
    return equation(x.aval, x)


def binary(pool: Pool, dtype: str, options: Options) -> Variable:
    x = pool.pick(dtype)
    y, is_broadcast = pool.beside(x)
    params = {"broadcasts": True} if is_broadcast else {}
    return equation(x.aval.with_dtype(options.get("to", dtype)), x, y, **params)


def used(pool: Pool, dtype: str, options: Options) -> Variable:
    """Draws a value, and what it is multiplied by in each of its uses."""
    x, uses = pool.pick(dtype), options["uses"]
    if pool.is_bundle and pool.dice.happens(70):
        return equation(x.aval, x, *pool.arguments_in_line(x.aval, uses))
    return equation(x.aval, x, *(pool.like(x.aval) for _ in range(uses)))


def selected(pool: Pool, dtype: str, _: Options) -> Variable:
    x = pool.pick(dtype)
    return equation(x.aval, pool.like(x.aval.with_dtype("bool")), x, pool.like(x.aval))


def converted(pool: Pool, dtype: str, _: Options) -> Variable:
    x = pool.pick(dtype)
    wide = ("float64",) if dtype == "float64" or pool.dice.happens(15) else ()
    to = pool.dice.choice([each for each in (*FLOATS, *wide) if each != dtype])
    return equation(x.aval.with_dtype(to), x, to=to)


# Shapes, slices, gathers and scatters.


def transposed(pool: Pool, dtype: str, _: Options) -> Variable:
    x = pool.pick(dtype, least=2)
    axes = x.aval.axes
    order = [*range(axes[0]), *axes[1:], axes[0]]
    return equation(x.aval.with_shape(*(x.aval.shape[i] for i in order)), x, order=order)


def flattened(pool: Pool, dtype: str, _: Options) -> Variable:
    x = pool.pick(dtype, least=1)
    first = x.aval.shape[:1] if x.aval.rows else ()
    size = x.aval.size // first[0] if first else x.aval.size
    half = [2, size // 2] if size and size % 2 == 0 and pool.dice.happens(50) else [size]
    return equation(x.aval.with_shape(*first, *half), x, shape=[ROWS] * len(first) + half)


def same_shape(pool: Pool, dtype: str, _: Options) -> Variable:
    x = pool.pick(dtype, least=1)
    return equation(x.aval, x, axis=pool.dice.choice(x.aval.axes), by=pool.dice.randint(1, 3))


def widened(pool: Pool, dtype: str, options: Options) -> Variable:
    """Draws an axis that gets longer: by padding, by copies, or by another operand."""
    x = pool.pick(dtype, least=1)
    axis = pool.dice.choice(x.aval.axes)
    size = x.aval.shape[axis]
    if options["by"] != "pad":
        operands = [x, pool.like(x.aval)] if options["by"] == "operand" else [x]
        return equation(x.aval.with_size(axis, 2 * size), *operands, axis=axis, times=2)
    low, high = pool.dice.randint(-1 if size > 2 else 0, 2), pool.dice.randint(0, 3)
    inner = pool.dice.randint(0, 1) if size else 0
    padding = [[0, 0, 0]] * len(x.aval.shape)
    padding[axis] = [low, high, inner]
    size += low + high + inner * max(size - 1, 0)
    return equation(x.aval.with_size(axis, size), x, padding=padding)


def sliced(pool: Pool, dtype: str, options: Options) -> Variable:
    x = pool.pick(dtype, least=1)
    axis = pool.dice.choice(x.aval.axes)
    size = x.aval.shape[axis]
    start = pool.dice.randint(0, size // 2)
    # Few elements leave devices without any.
    stop = pool.dice.randint(start, min(size, start + 2) if pool.is_bundle else size)
    step = pool.dice.randint(1, options.get("steps", 2))
    aval = x.aval.with_size(axis, len(range(start, stop, step)))
    return equation(aval, x, start=start, stop=stop, step=step, axis=axis)


def sliced_anywhere(pool: Pool, dtype: str, options: Options) -> Variable:
    """Draws a slice whose start is an argument of the program."""
    x = pool.pick(dtype, least=1, nonempty=True)
    axis = pool.dice.choice(x.aval.axes)
    size = pool.dice.randint(1, options.get("most", x.aval.shape[axis]))
    part = x.aval.with_size(axis, size)
    start = pool.argument(Aval((), "int32"), limit=x.aval.shape[axis] + 2)
    if options.get("updates"):
        return equation(x.aval, x, pool.like(part), start, axis=axis)
    return equation(part, x, start, axis=axis, size=size)


def expanded(pool: Pool, dtype: str, _: Options) -> Variable:
    x = pool.pick(dtype, most=2)
    axis = pool.dice.randint(int(x.aval.rows), len(x.aval.shape))
    shape = (*x.aval.shape[:axis], pool.dice.choice((1, 2, 3)), *x.aval.shape[axis:])
    named = [ROWS, *shape[1:]] if x.aval.rows else list(shape)
    return equation(x.aval.with_shape(*shape), x, axis=axis, shape=named)


def gathered(pool: Pool, dtype: str, _: Options) -> Variable:
    """Draws a table, and rows or single positions that index it."""
    table = pool.pick(dtype, least=1, rows=False, nonempty=True)
    size, *shape = table.aval.shape
    rows = bool(pool.rows) and pool.dice.happens(60)
    count = pool.rows if rows else pool.dice.choice((1, 4, 7, 8))
    index = pool.argument(Aval((count,), "int32", rows), limit=size)
    return equation(Aval((count, *shape), dtype, rows), table, index)


def taken_along(pool: Pool, dtype: str, _: Options) -> Variable:
    x = pool.pick(dtype, least=1, nonempty=True)
    axis = pool.dice.choice(x.aval.axes)
    index = pool.argument(x.aval.with_dtype("int32"), limit=x.aval.shape[axis])
    return equation(x.aval, x, index, axis=axis)


def scattered(pool: Pool, dtype: str, _: Options) -> Variable:
    """Draws updates of an operand at indices of which many are equal."""
    x = pool.pick(dtype, least=1, most=2, rows=False, nonempty=True)
    size, *shape = x.aval.shape
    count = pool.dice.choice((1, 5, 8, 16, 24))
    index = pool.argument(Aval((count,), "int32"), limit=min(size + 1, 6))
    return equation(x.aval, x, index, pool.like(Aval((count, *shape), dtype)))


# Reductions, and what runs along, sorts or slides over axes.


def reduced(pool: Pool, dtype: str, options: Options) -> Variable:
    """Draws the axes of a reduction."""
    nonempty = options.get("nonempty", False)
    x = _many(pool, dtype) or pool.pick(dtype, least=1, nonempty=nonempty)
    count = min(len(x.aval.axes), pool.dice.randint(1, options.get("axes", 3)))
    axes = sorted(pool.dice.sample(x.aval.axes, count))
    shape = [size for axis, size in enumerate(x.aval.shape) if axis not in axes]
    if options.get("keeps"):
        shape = [1 if axis in axes else size for axis, size in enumerate(x.aval.shape)]
    aval = x.aval.with_shape(*shape).with_dtype(options.get("to", dtype))
    return equation(aval, x, axes=axes, axis=axes[0])


def along(pool: Pool, dtype: str, options: Options) -> Variable:
    """Draws an axis, and a direction along it."""
    x = _long(pool, dtype) if options.get("ties") else _many(pool, dtype)
    x = x or pool.pick(dtype, least=1, nonempty=True)
    aval = x.aval.with_dtype(options.get("to", dtype))
    axis, reverse = pool.dice.choice(aval.axes), pool.dice.happens(40)
    return equation(aval, x, axis=axis, reverse=reverse)


def _many(pool: Pool, dtype: str) -> Variable | None:
    """Returns an argument with more terms than are added at once, in a few draws of a bundle.

    Sums of 1024 terms have two stages, and longer running sums have blocks.
    """
    is_many = pool.is_bundle and pool.dice.happens(8)
    return pool.argument(Aval((_MANY,), dtype)) if is_many else None


def _long(pool: Pool, dtype: str) -> Variable:
    """Returns an operand of a sort, in half of the draws a long one with many equal elements.

    XLA's algorithm on a CPU keeps the order of equal elements by chance if there are 16 at most.
    """
    if dtype == "int32" or pool.dice.happens(50):
        return pool.pick(dtype, least=1, nonempty=True)
    return pool.argument(Aval((40,), dtype), kind="few")


def pairs_along(pool: Pool, dtype: str, _: Options) -> Variable:
    x = _long(pool, dtype)
    return equation(x.aval, x, pool.like(x.aval), axis=pool.dice.choice(x.aval.axes))


def highest(pool: Pool, dtype: str, options: Options) -> Variable:
    x = pool.pick(dtype, least=1, nonempty=True)
    count = pool.dice.randint(1, x.aval.shape[-1])
    aval = x.aval.with_size(-1, count).with_dtype(options.get("to", dtype))
    return equation(aval, x, count=count)


def window(pool: Pool, dtype: str, options: Options) -> Variable:
    """Draws windows along the last one or two axes."""
    x = pool.pick(dtype, least=1, nonempty=True)
    shape, rank = list(x.aval.shape), len(x.aval.shape)
    sizes, strides, padding = [1] * rank, [1] * rank, [[0, 0]] * rank
    for axis in x.aval.axes[-2:]:
        sizes[axis] = pool.dice.randint(1, min(4, shape[axis]))
        strides[axis] = pool.dice.randint(1, 3)
        padding[axis] = [pool.dice.randrange(sizes[axis]) for _ in range(2)]
        # A device may need elements of two others, where most of them have no window.
        if pool.is_bundle and sizes[axis] > 1 and pool.dice.happens(60):
            strides[axis] = pool.dice.choice((4, 6))
            padding[axis] = [pool.dice.randrange(1, sizes[axis]), 0]
        shape[axis] = (shape[axis] + sum(padding[axis]) - sizes[axis]) // strides[axis] + 1
    aval = x.aval if options.get("keeps") else x.aval.with_shape(*shape)
    return equation(aval, x, sizes=sizes, strides=strides, padding=padding)


# Products, convolutions, decompositions and transforms.


def product(pool: Pool, dtype: str, options: Options) -> Variable:
    """Draws a matrix or a batch of rows, and a matrix of weights."""
    x = pool.pick(dtype, least=1, most=2)
    count = pool.dice.choice((1, 3, 4, 8))
    weights = pool.like(Aval((x.aval.shape[-1], count), dtype))
    aval = x.aval.with_size(-1, count).with_dtype(options.get("to", dtype))
    return equation(aval, x, weights)


def batched(pool: Pool, dtype: str, _: Options) -> Variable:
    """Draws two arrays that share their first axis."""
    x = pool.pick(dtype, least=2, most=2)
    if not x.aval.rows:
        x = pool.like(Aval((2, *x.aval.shape), dtype))
    count = pool.dice.choice((1, 3, 4))
    y = pool.like(x.aval.with_size(-2, count))
    return equation(x.aval.with_size(-1, count), x, y)


def contracted(pool: Pool, dtype: str, _: Options) -> Variable:
    x = pool.pick(dtype, least=1, most=3)
    count = pool.dice.randint(int(x.aval.rows), len(x.aval.shape) - 1)
    y = pool.like(Aval(x.aval.shape[count:], dtype))
    axes = "cdefg"[: len(x.aval.shape)]
    subscripts = f"{axes},{axes[count:]}->{axes[:count]}"
    return equation(x.aval.with_shape(*x.aval.shape[:count]), x, y, subscripts=subscripts)


def evaluated(pool: Pool, dtype: str, _: Options) -> Variable:
    """Draws a point of a polynomial, and its coefficients.

    With one coefficient, JAX before 0.12 multiplies 0 by the point, and JAX 0.12 does not.
    """
    point = pool.pick(dtype, most=2)
    return equation(point.aval, point, pool.like(Aval((pool.dice.randint(2, 5),), dtype)))


def squared(pool: Pool, dtype: str, _: Options) -> Variable:
    x = pool.pick(dtype, least=2, most=2, rows=False)
    return equation(x.aval.with_size(1, x.aval.shape[0]), x)


def ragged(pool: Pool, dtype: str, _: Options) -> Variable:
    x = pool.pick(dtype, least=2, most=2, rows=False, nonempty=True)
    rows, inner = x.aval.shape
    groups, count = pool.dice.choice((1, 2, 3)), pool.dice.choice((1, 4))
    y = pool.like(Aval((groups, inner, count), dtype))
    cut = pool.dice.randint(0, rows)
    sizes = [cut, rows - cut, 0][:groups] if groups > 1 else [rows]
    return equation(Aval((rows, count), dtype), x, y, sizes=sizes)


def convolved(pool: Pool, dtype: str, _: Options) -> Variable:
    """Draws a convolution of one axis, with strides, dilations, padding and groups."""
    dice = pool.dice
    rows = bool(pool.rows) and dice.happens(60)
    batch = pool.rows if rows else dice.choice((1, 2, 3))
    groups = dice.choice((1, 1, 2))
    channels, outputs = groups * dice.randint(1, 3), groups * dice.randint(1, 2)
    size, taps = dice.choice((4, 7, 8)), dice.randint(1, 3)
    stride, dilation, spread = dice.randint(1, 2), dice.randint(1, 2), dice.randint(1, 2)
    if pool.is_bundle:
        size, taps = dice.choice((16, 24)), dice.choice((2, 3, 12, 16))
        channels, outputs, dilation = groups, groups * 4, 1
    padding = [dice.randint(0, 2), dice.randint(0, 2)]
    wide = (size - 1) * spread + 1 + sum(padding) - ((taps - 1) * dilation + 1)
    image = pool.like(Aval((batch, channels, size), dtype, rows))
    kernel = pool.like(Aval((outputs, channels // groups, taps), dtype))
    aval = Aval((batch, outputs, max(wide // stride + 1, 0)), dtype, rows)
    params = {"stride": stride, "padding": padding, "spread": spread, "dilation": dilation}
    return equation(aval, image, kernel, groups=groups, **params)


def square(pool: Pool, dtype: str, options: Options) -> Variable:
    """Draws a square matrix, and a right side for a solution."""
    size = pool.dice.choice((1, 2, 3, 5))
    kind = "plain" if pool.dice.happens(80) else "few"
    matrix = pool.argument(Aval((size, size), dtype), kind=kind)
    right = pool.like(Aval((size, 2), dtype))
    shape = {"matrix": (size, size), "right": (size, 2), "values": (size,), "number": ()}
    return equation(Aval(shape[options["result"]], dtype), matrix, right)


def transformed(pool: Pool, dtype: str, options: Options) -> Variable:
    """Draws an operand; a float64 has no products that are subnormal."""
    is_wide = dtype == "float64"
    if is_wide:
        x = pool.argument(Aval(pool.shape(2, nonempty=True), dtype), kind="plain")
    else:
        x = pool.pick(dtype, least=1, nonempty=True)
    aval = x.aval.with_dtype("complex128" if is_wide else "complex64")
    size = aval.shape[-1]
    return equation(aval.with_size(-1, size // 2 + 1 if options.get("halves") else size), x)


# Control flow, custom rules, random numbers, layers of libraries, and refused calls.


def chosen(pool: Pool, dtype: str, _: Options) -> Variable:
    x = pool.pick(dtype)
    return equation(x.aval, pool.argument(Aval((), "int32"), limit=3), x, pool.like(x.aval))


def over_rows(pool: Pool, dtype: str, options: Options) -> Variable:
    """Draws an array whose first axis a loop runs over."""
    x = pool.pick(dtype, least=1, rows=False, nonempty=True)
    first = Aval(x.aval.shape[1:], dtype)
    return equation(x.aval if options.get("stacks") else first, x, pool.like(first))


def layer(pool: Pool, dtype: str, options: Options) -> Variable:
    rows = False if options.get("mixes_rows") else None
    x = pool.pick(dtype, least=1, most=2, rows=rows, nonempty=True)
    return equation(x.aval.with_size(-1, options.get("width", x.aval.shape[-1])), x)


def drawn(pool: Pool, dtype: str, _: Options) -> Variable:
    seed = pool.argument(Aval((), "int32"), limit=1000)
    shape = pool.shape(pool.dice.randint(1, 2))
    return equation(Aval(shape, dtype), seed, shape=list(shape), to=dtype)


def attended(pool: Pool, dtype: str, _: Options) -> Variable:
    rows = bool(pool.rows) and pool.dice.happens(60)
    aval = Aval((pool.rows if rows else 2, 4, 2, 4), dtype, rows)
    return equation(aval, pool.like(aval), pool.like(aval), pool.like(aval))


def in_parts(pool: Pool, dtype: str, _: Options) -> Variable:
    """Draws rows that a loop adds part by part."""
    count = pool.dice.choice((1, 2, 3, 4))
    rows = count * pool.dice.choice((1, 2, 5))
    shape = pool.shape(pool.dice.randint(0, 1), nonempty=True)
    return equation(Aval(shape, dtype), pool.argument(Aval((rows, *shape), dtype)), count=count)


def products_in_parts(pool: Pool, dtype: str, _: Options) -> Variable:
    """Draws two arrays of rows, whose products a loop adds part by part."""
    count = pool.dice.choice((1, 2, 3, 4))
    rows = count * pool.dice.choice((1, 2, 5))
    shape = (pool.dice.choice((1, 2, 4)), pool.dice.choice((1, 3, 4)))
    operands = [pool.argument(Aval((rows, columns), dtype)) for columns in shape]
    return equation(Aval(shape, dtype), *operands, count=count)


def one(pool: Pool, dtype: str, options: Options) -> Variable:
    x = pool.pick(dtype, least=1, rows=False, nonempty=True)
    return equation(x.aval.with_shape(*x.aval.shape[options.get("loses", 0) :]), x)


# Operations that combine the rows which devices share: a pool without rows has no operand.


def of_rows(pool: Pool, dtype: str, options: Options) -> Variable | None:
    """Draws an operand whose rows are combined over the devices."""
    if not pool.rows:
        return None
    x = pool.pick(dtype, rows=True)
    shape = x.aval.shape[0 if options.get("keeps") else 1 :]
    return equation(Aval(shape, dtype), x, number=pool.dice.choice(("1.0", "0.5", "3.0", "-0.1")))


def product_of_rows(pool: Pool, dtype: str, _: Options) -> Variable | None:
    if not pool.rows:
        return None
    x, y = (pool.pick(dtype, rows=True, least=1, most=1) for _ in range(2))
    return equation(Aval((x.aval.shape[1], y.aval.shape[1]), dtype), x, y)


def scatter_of_rows(pool: Pool, dtype: str, options: Options) -> Variable | None:
    if not pool.rows:
        return None
    updates = pool.pick(dtype, rows=True)
    rows = "keeps" in options
    count = pool.rows if rows else pool.dice.choice((1, 3, 8))
    index = pool.argument(Aval((pool.rows,), "int32", rows=True), limit=count)
    aval = Aval((count, *updates.aval.shape[1:]), dtype, rows)
    return equation(aval, updates, index, count=count)

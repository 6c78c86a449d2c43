"""Samples of embedding and embedding_bag."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

import spec
from conformance.cases._data import DTYPES, Array, rounded_once
from conformance.cases._forms import INF, NO_INDEX, at, normal, small, spread, unlike_torch
from conformance.cases.table import Draw, ErrorInput, Form, OpInfo, Sample, form, refused
from spec import oracles

#: A row so wide that the order of additions changes bits.
_WIDTH = 1500


def _bounded(rows: Array, max_norm: float, order: int) -> Array:
    """Returns rows scaled down to a norm of at most ``max_norm``.

    The squares of a Euclidean norm are added exactly. Other norms are of float64.
    """
    norm = np.linalg.norm(rows.astype(np.float64), order, axis=1)
    if order == 2:
        norm = np.sqrt(oracles.nearest((rows * rows).T))
    norm, number = norm[:, None], norm.dtype.type
    scaled = rows * (number(max_norm) / (norm + number(1e-7)))
    return np.where(norm > number(max_norm), scaled, rows)


def _embedding(d: Draw) -> Iterator[Sample]:
    """Yields each dtype; gradients divided by counts, with a padding row; and bounded norms."""
    for name, dtype in DTYPES.items():
        yield Sample(
            name=name,
            facts=_facts("integer" if dtype is np.int32 else "floating"),
            call=lambda ns, i, w: ns.nn.functional.embedding(i, w),
            arrays=(d.indices((d.many,)), d.values((d.few, d.lanes), dtype)),
            ordered=lambda i, w: w[i],
            wrt=None if dtype is np.int32 else 1,
            ordered_gradient=lambda ct, i, w: oracles.source(np.zeros_like(w), i, ct),
            choices=rounded_once(name, "backward"),
        )
    yield Sample(
        name="divided",
        facts={**_facts(), "input_ndim": 2},
        call=lambda ns, i, w: ns.nn.functional.embedding(
            i, w, padding_idx=-min(5, len(w)), scale_grad_by_freq=True
        ),
        arrays=(d.indices((d.some, d.some)), d.values((d.few, d.lanes), np.float32)),
        ordered=lambda i, w: w[i],
        wrt=1,
        ordered_gradient=_divided,
    )
    (width,) = d.sizes((_WIDTH,))
    bounded = Sample(
        name="bounded",
        facts={**_facts(), "max_norm": True},
        call=lambda ns, i, w: ns.nn.functional.embedding(i, w, None, 38),
        arrays=(d.indices((9,)), d.values((d.few, width), np.float32)),
        ordered=lambda i, w: _bounded(w, 38, 2)[i],
    )
    yield bounded
    yield dataclasses.replace(
        bounded,
        name="bounded_powers",
        facts={**bounded.facts, "power_norm": True},
        call=lambda ns, i, w: ns.nn.functional.embedding(i, w, None, 38, 3),
        ordered=None,
        expected=lambda i, w: _bounded(w, 38, 3)[i],
    )


def _facts(dtype: str = "floating") -> dict[str, spec.FactValue]:
    return {"dtype": dtype, "input_ndim": 1, "max_norm": False, "power_norm": False}


def _divided(ct: Array, i: Array, w: Array) -> Array:
    out = oracles.source(np.zeros_like(w), i.reshape(-1), ct.reshape(i.size, -1 if ct.size else 0))
    count = np.maximum(np.bincount(i.reshape(-1), minlength=len(w)), 1)
    out = out / count[:, None].astype(w.dtype)
    out[-min(5, len(w))] = 0
    return np.asarray(out)


#: The first element of each bag of 2500. The second bag is empty, and the last bag is small.
_OFFSETS = np.array([0, 900, 900, 1300, 1310, 2400, 2490], np.int32)


def _embedding_bag(d: Draw) -> Iterator[Sample]:
    """Yields each mode, a padding row, weights and their gradient, and rows with bounded norms."""
    offsets = (_OFFSETS * d.many // 2500).astype(np.int32)
    rows, width = d.sizes((40, _WIDTH))
    index = d.indices((d.many,))
    for name, mode, dtype in (("sum", "sum", np.float32), ("narrow", "mean", bfloat16)):
        yield _sample(name, mode, (index, offsets, d.values((d.few, d.lanes), dtype)))
    table = d.values((d.few, d.lanes), np.float32)
    yield _sample("max", "max", (d.indices((d.many, 2)), None, np.round(table)))
    # A division by 3 differs from a product with its reciprocal.
    triples = (d.indices((d.many // 3, 3)), None, table)
    yield _sample("padding", "mean", triples, padding_idx=min(3, d.few - 1))
    weights = d.values((d.many,), np.float32)
    yield _sample("weighted", "sum", (index, offsets, table, weights))
    table, weights = d.values((d.few, width), np.float32), d.values((4, 3), np.float32)
    broad = (d.indices((4, 3)), None, table, weights)
    yield _sample("by_weights", "sum", broad, wrt=3)
    few = (d.indices((rows, 3)), None, d.values((d.few, 5), np.float32))
    yield _sample("bounded", "max", few, max_norm=1.5)
    for mode in ("mean", "max"):
        yield _sample(f"powers_{mode}", mode, few, max_norm=1.5, norm_type=3)


def _sample(
    name: str,
    mode: str,
    arrays: tuple[Array | None, ...],
    wrt: int = 2,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: int = 2,
) -> Sample:
    """Returns a call with an input, offsets or None, a table, and perhaps weights."""
    inputs = [a for a in arrays if a is not None]
    no_offsets = arrays[1] is None

    def parts(*inputs: Any) -> tuple[Any, ...]:
        """Returns the input, the offsets or None, the table, and the weights or None."""
        arrays = (inputs[0], None, *inputs[1:]) if no_offsets else inputs
        return (*arrays, None)[:4]

    def call(ns: Any, *inputs: Any) -> Any:
        i, offsets, w, p = parts(*inputs)
        return ns.nn.functional.embedding_bag(
            i, w, offsets, max_norm, norm_type, False, mode, False, p, False, padding_idx
        )

    def bags(*inputs: Any) -> _Bags:
        i, offsets, w, p = parts(*inputs)
        return _Bags(mode, i, offsets, w, p, padding_idx, max_norm, norm_type)

    kind = "ordered" if max_norm is None or norm_type == 2 else "expected"
    references: dict[str, Any] = {
        kind: lambda *inputs: bags(*inputs).forward(),
        f"{kind}_gradient": lambda ct, *inputs: bags(*inputs).gradient(ct, wrt),
    }
    return Sample(
        name=name,
        facts={
            "dtype": "floating",
            "mode": mode,
            "max_norm": max_norm is not None,
            "power_norm": norm_type == 3,
        },
        call=call,
        arrays=tuple(inputs),
        wrt=wrt - no_offsets,
        **references,
    )


@dataclasses.dataclass
class _Bags:
    """The reference of a call, in the order and the dtypes of the spec."""

    mode: str
    i: Array
    offsets: Array | None
    w: Array
    p: Array | None
    padding: int | None
    max_norm: float | None
    norm_type: int

    def __post_init__(self) -> None:
        self.dtype = np.dtype(np.float32)
        self.flat = self.i.reshape(-1)
        position = np.arange(self.flat.size)
        if self.offsets is None:
            self.count, self.bag = len(self.i), position // self.i.shape[1]
        else:
            self.count = len(self.offsets)
            self.bag = np.searchsorted(self.offsets, position, side="right") - 1
        self.bag = np.where(self.flat == self.padding, -1, self.bag)
        self.rows = self._table()[self.flat]

    def forward(self) -> Array:
        if self.mode == "max":
            position = self._greatest()
            rows = np.take_along_axis(self.rows, np.maximum(position, 0), 0)
            return np.where(position >= 0, rows, 0).astype(self.w.dtype)
        rows = self.rows if self.p is None else self.rows * self._weights()
        return np.asarray(self._add(self.count, self.bag, rows) / self._sizes()).astype(
            self.w.dtype
        )

    def gradient(self, ct: Array, wrt: int) -> Array:
        ct = ct.astype(self.dtype) / self._sizes()
        if self.mode == "max":
            position = self._greatest()
            index = np.where(position >= 0, self.flat[position], -1)
            columns = [self._add(len(self.w), i, c) for i, c in zip(index.T, ct.T, strict=True)]
            return np.reshape(np.transpose(columns), self.w.shape).astype(self.w.dtype)
        in_a_bag = self.bag >= 0
        ct = np.where(in_a_bag[:, None], ct[self.bag], 0)
        if wrt == 3:
            destination = np.zeros(ct.shape[1], np.int64)
            sums = self._add(1, destination, (ct * self.rows).T)[0]
            return np.reshape(sums, self.i.shape).astype(self.w.dtype)
        rows = ct if self.p is None else ct * self._weights()
        index = np.where(in_a_bag, self.flat, -1)
        return self._add(len(self.w), index, rows).astype(self.w.dtype)

    def _table(self) -> Array:
        if self.max_norm is None:
            return self.w.astype(self.dtype)
        return _bounded(self.w, self.max_norm, self.norm_type)

    def _weights(self) -> Array:
        assert self.p is not None  # noqa: S101  # narrows its type
        return self.p.reshape(-1, 1).astype(self.dtype)

    def _sizes(self) -> Array:
        sizes = np.bincount(self.bag[self.bag >= 0], minlength=self.count)[:, None]
        return (np.maximum(sizes, 1) if self.mode == "mean" else np.ones_like(sizes)).astype(
            self.dtype
        )

    def _add(self, size: int, index: Array, source: Array) -> Array:
        return oracles.source(np.zeros((size, *source.shape[1:]), self.dtype), index, source)

    def _greatest(self) -> Array:
        """Returns the position of the greatest element of each bag and column.

        It is the first of equal ones, and -1 for an empty bag.
        """
        position = np.full((self.count, self.rows.shape[1]), -1)
        for bag in range(self.count):
            elements = np.flatnonzero(self.bag == bag)
            if elements.size:
                position[bag] = elements[np.argmax(self.rows[elements], axis=0)]
        return position


_WEIGHT = normal(5, 3)
_INDEX = np.random.default_rng(0).integers(0, 5, 10)
_ROWS = np.random.default_rng(8).integers(0, 4, (2, 5))


def _forms_of_embedding() -> Iterator[Form]:
    """Yields indices, padding, a bound and the order of the norm, and a division by counts."""
    norms = [(None, 2.0), (1.0, 2.0), (1, 1.0), (0.5, INF), (1.0, 3.0), (2.0, 0.0), (0.0, 2)]
    shapes: list[tuple[int, ...]] = [(2, 3), (6,)]
    for shape, padding, norm, scaled in itertools.product(
        shapes, [None, 0, -2], norms, [False, True]
    ):
        if (len(shape) + (padding or 0) + norms.index(norm) + scaled) % 3 == 0:
            yield form(_INDEX[:6].reshape(shape), _WEIGHT, padding, *norm, scaled)
    yield form(np.array(3), _WEIGHT)
    yield form(_INDEX[:0], _WEIGHT, 1, 1.0, 2.0, True)
    yield form(_INDEX[:0], _WEIGHT[:0], 0)
    for dtype in (np.float16, bfloat16, np.int8):
        yield form(_INDEX, small((5, 2), dtype), 0)
    yield form(_ROWS, spread(4, 3)).named()


def _forms_of_bags() -> Iterator[Form]:
    offsets, ends = np.array([0, 0, 3, 7, 10]), np.array([0, 2, 2, 8])
    choices = itertools.product(
        enumerate([(offsets, False), (ends, True), (None, False)]),
        enumerate([("sum", False), ("sum", True), ("mean", False), ("max", False)]),
        enumerate([None, 1, -5]),
        [None, 1.0],
    )
    for (i, (starts, last)), (j, (mode, weighted)), (k, padding), norm in choices:
        if (i + j + k) % 3:
            continue  # Each pair of options occurs in the rest.
        # PyTorch wrongly adds the elements after the last bag to it.
        index = _INDEX.reshape(5, 2) if starts is None else _INDEX[: 8 if last else 10]
        yield form(
            index,
            _WEIGHT,
            starts,
            norm,
            mode=mode,
            per_sample_weights=normal(*index.shape) if weighted else None,
            include_last_offset=last,
            padding_idx=padding,
        )
    for narrow in ("uint8", "int8", "int16", "bool"):
        for dtypes in ((narrow, "int32"), ("int64", narrow)):
            index, starts = (
                np.array(x).astype(d) for x, d in zip(([1, 0, 1], [0, 1]), dtypes, strict=True)
            )
            yield form(index, _WEIGHT, starts, mode="sum")
    for mode in ("sum", "mean", "max"):
        # No bags, and empty ones.
        yield form(NO_INDEX, _WEIGHT, NO_INDEX, mode=mode)
        yield form(NO_INDEX, _WEIGHT, at(0, 0), mode=mode)
        yield form(NO_INDEX, _WEIGHT[:0], at(0), mode=mode)
    yield form(_ROWS, spread(4, 3), mode="mean").named()
    weights = spread(2, 5)
    yield form(_ROWS, spread(4, 3), mode="sum", per_sample_weights=weights).named("weighted")


_ZERO, _PAIR, _NARROW = np.array([0]), np.array([[0, 1]]), np.zeros(1, np.int16)
_REALS = np.zeros(1, np.float32)


def _errors_of_embedding() -> Iterator[ErrorInput]:
    yield refused(IndexError, "index 5 is out of bounds for a weight", at(0, 5), _WEIGHT)
    yield refused(IndexError, "position [0, 1] of argument 'input'", -_PAIR, _WEIGHT)
    yield refused(RuntimeError, "int32/int64 for input but got: int16", _NARROW, _WEIGHT)
    yield refused(RuntimeError, "for input but got: float32", _REALS, _WEIGHT)
    yield refused(RuntimeError, "must be 2-D, but got shape [3]", _ZERO, _WEIGHT[0])
    yield refused(AssertionError, "-5 through 4, but got 5", _ZERO, _WEIGHT, 5)
    yield refused(AssertionError, "but got -6", _ZERO, _WEIGHT, -6)
    yield refused(TypeError, "'max_norm' must be float, not complex", _ZERO, _WEIGHT, None, 1j)
    yield refused(TypeError, "'norm_type' must be float", _ZERO, _WEIGHT, None, 1.0, None)
    yield refused(RuntimeError, "got int32", _ZERO, _WEIGHT.astype(int), None, 1.0)
    # PyTorch's exception depends on its mode.
    yield from unlike_torch(refused(IndexError, "none is allowed", _ZERO, _WEIGHT[:0]))


def _errors_of_bags() -> Iterator[ErrorInput]:
    yield refused(RuntimeError, "index 5 is out of bounds", at(0, 5), _WEIGHT, _ZERO)
    yield refused(RuntimeError, "5 rows, at position [0, 0]", at(-1)[None], _WEIGHT)
    yield refused(RuntimeError, "for input but got: float32", _REALS, _WEIGHT, _ZERO)
    yield refused(RuntimeError, "for offsets but got: float32", _ZERO, _WEIGHT, _REALS)
    yield refused(RuntimeError, "for input but got: int16", _NARROW, _WEIGHT, _NARROW)
    yield refused(RuntimeError, "for input but got: int16", _NARROW[None], _WEIGHT)
    yield refused(ValueError, "weight has to be 2-D", _ZERO, _WEIGHT[0], _ZERO)
    yield refused(RuntimeError, "floats, but got int32", _ZERO, _WEIGHT.astype(int), _ZERO)
    yield refused(ValueError, "offsets has to be None", _PAIR, _WEIGHT, _ZERO)
    yield refused(ValueError, "1D array but got None", _ZERO, _WEIGHT)
    yield refused(ValueError, "1D array, but got shape [1, 2]", _ZERO, _WEIGHT, _PAIR)
    yield refused(ValueError, "1D or 2D, but got shape []", np.array(0), _WEIGHT)
    yield refused(ValueError, "got shape [1, 1, 2]", _PAIR[None], _WEIGHT)
    yield refused(RuntimeError, "offsets[0] has to be 0", _ZERO, _WEIGHT, at(1))
    yield refused(RuntimeError, "input's length 1 but got", _ZERO, _WEIGHT, at(0, 2))
    yield refused(RuntimeError, "at least 1", _ZERO, _WEIGHT, NO_INDEX, include_last_offset=True)
    yield refused(ValueError, "but got 'min'", _PAIR, _WEIGHT, mode="min")
    yield refused(ValueError, "one of sum, mean or max", _PAIR, _WEIGHT, mode=1)
    yield refused(ValueError, "sparse weights", _PAIR, _WEIGHT, mode="max", sparse=True)
    scaled: dict[str, Any] = {"mode": "max", "scale_grad_by_freq": True}
    yield refused(ValueError, "scaling the gradient", _PAIR, _WEIGHT, **scaled)
    yield refused(RuntimeError, "-5 through 4, but got 5", _PAIR, _WEIGHT, padding_idx=5)
    for error, words, mode, weights in (
        (RuntimeError, "got float16 and float32", "sum", np.ones(1, np.float16)),
        (NotImplementedError, "for mode='sum', but got mode='mean'", "mean", _REALS),
        (ValueError, "([2]) must have the same shape as the input ([1])", "sum", np.ones(2)),
    ):
        weighted = {"mode": mode, "per_sample_weights": weights}
        yield refused(error, words, _ZERO, _WEIGHT, _ZERO, **weighted)
    yield from unlike_torch(
        refused(RuntimeError, "got: uint16", _ZERO, _WEIGHT, _NARROW.view(np.uint16)),
        refused(TypeError, "'offsets' must be", _ZERO, _WEIGHT, [0]),
        refused(RuntimeError, "got 2 after 3", _INDEX, _WEIGHT, at(0, 3, 2)),
        refused(RuntimeError, "must ascend", _INDEX, _WEIGHT, at(0, -1)),
    )


OPS = (
    OpInfo(
        "nn.functional.embedding",
        _embedding,
        _forms_of_embedding,
        _errors_of_embedding,
        plain=lambda jax, i, weight: jax.numpy.take(weight, i, axis=0),
    ),
    OpInfo(
        "nn.functional.embedding_bag",
        _embedding_bag,
        _forms_of_bags,
        _errors_of_bags,
        plain=lambda jax, i, weight: jax.numpy.take(weight, i, axis=0).mean(1),
    ),
)

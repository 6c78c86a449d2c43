"""bmm with a sparse left operand: the ordered path against plain JAX and PyTorch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.sparse import BCOO, bcoo_dot_general

import impl
from conformance.benchmarks.case import Case, Setting
from conformance.benchmarks.sides import Side, run
from conformance.benchmarks.torch_peer import TorchPeer

TITLE = "bmm with a sparse left operand, float32"
BASE = "plain BCOO @ dense"
OURS = "ordered"

#: The batch, the rows and columns of the sparse operand, the inverse of its density, and the
#: columns of the dense operand.
SIZES = ((8, 4096, 4096, 1000, 64),)


class Operands(NamedTuple):
    """The operands as NumPy arrays.

    Attributes:
        shape: The shape of the sparse operand.
        indices: The row and column of each stored element, sorted.
        data: The stored elements.
        dense: The dense operand.
        cotangent: A cotangent of the product.
    """

    shape: tuple[int, int, int]
    indices: Any
    data: Any
    dense: Any
    cotangent: Any


def cases(setting: Setting) -> Iterator[Case]:
    """Yields every size and both directions; ``setting.times`` multiplies the size of a batch."""
    for batch, rows, columns, one_in, width in SIZES:
        operands = _operands((batch * setting.times, rows, columns), one_in, width)
        torch_sides = _torch_sides(setting.torch, operands) if setting.torch else {}
        shapes = f"{list(operands.shape)}, 1 in {one_in:,}, by {list(operands.dense.shape)}"
        for direction, sides in _jax_sides(operands):
            case = {"size": shapes, "direction": direction}
            yield Case(case, {**sides, **torch_sides.get(direction, {})}, OURS)


def _operands(shape: tuple[int, int, int], one_in: int, width: int) -> Operands:
    rng = np.random.default_rng(0)
    batch, rows, columns = shape
    stored = rows * columns // one_in
    flat = np.stack([np.sort(rng.integers(0, rows * columns, stored)) for _ in range(batch)])
    indices = np.stack([flat // columns, flat % columns], axis=-1).astype(np.int32)
    float_shapes = (flat.shape, (batch, columns, width), (batch, rows, width))
    return Operands(
        shape, indices, *(rng.normal(size=shape).astype(np.float32) for shape in float_shapes)
    )


def _jax_sides(operands: Operands) -> Iterator[tuple[str, dict[str, Side]]]:
    """Yields each direction with its sides."""
    arrays = (jnp.asarray(operands.data), jnp.asarray(operands.dense))
    indices, cotangent = jnp.asarray(operands.indices), jnp.asarray(operands.cotangent)

    def programs(product: Any) -> list[Side]:
        def forward(data: jax.Array, dense: jax.Array) -> Any:
            return product(BCOO((data, indices), shape=operands.shape), dense)

        forward_program = jax.jit(forward).lower(*arrays).compile()
        _, pullback = jax.vjp(jax.jit(forward), *arrays)
        apply = jax.jit(lambda pullback, cotangent: pullback(cotangent))
        backward_program = apply.lower(pullback, cotangent).compile()
        return [
            run(forward_program, *arrays),
            run(backward_program, pullback, cotangent),
        ]

    with impl.deterministic(profile="complete"):
        ordered = programs(impl.bmm)
    plain = programs(_plain)
    for index, direction in enumerate(("forward", "backward")):
        yield direction, {BASE: plain[index], OURS: ordered[index]}


def _plain(left: BCOO, right: jax.Array) -> Any:
    numbers = (((2,), (1,)), ((0,), (0,)))
    return bcoo_dot_general(left, right, dimension_numbers=numbers)


def _torch_sides(torch: TorchPeer, operands: Operands) -> Mapping[str, Mapping[str, Side]]:
    batch = np.repeat(np.arange(operands.indices.shape[0]), operands.indices.shape[1])
    all_indices = np.stack([batch, *operands.indices.reshape(-1, 2).T.astype(np.int64)])
    indices, values, dense, cotangent = torch.tensors(
        (all_indices, operands.data.reshape(-1), operands.dense, operands.cotangent)
    )
    # Declared as coalesced: PyTorch would otherwise sort it in every call.
    sparse = torch.torch.sparse_coo_tensor(
        indices, values, operands.shape, is_coalesced=True, check_invariants=False
    )
    sparse.requires_grad_()
    dense.requires_grad_()

    def product() -> Any:
        return torch.torch.bmm(sparse, dense)

    return {
        "forward": torch.forward_sides(product),
        "backward": torch.backward_sides(product(), (sparse, dense), cotangent),
    }

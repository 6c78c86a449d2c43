"""Section 2 of the demo: an op that raises under one profile and is ordered under another."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp

import impl
from impl._demo.report import Report
from impl._kernels import pallas


def lower_kthvalue(profile: str) -> str:
    """Returns ``kthvalue`` lowered for an NVIDIA GPU with the mode on, as text.

    Raises:
        RuntimeError: The profile has no deterministic implementation.
    """
    zeros = jnp.zeros(10_000, jnp.float32)
    with impl.deterministic(profile=profile):
        return impl.testing.lower(_smallest, zeros).as_text()


def kernels(program: str) -> list[str]:
    """Returns the names of this package's kernels in a lowered program."""
    return sorted(
        set(re.findall(r"\b[a-z]+(?:_[a-z]+)*_(?:atomic|ordered)(?:_[a-z]+)*\b", program))
    )


def show(report: Report) -> None:
    report.section("2. kthvalue with the mode on, lowered for an NVIDIA GPU (none is needed)")
    message = ""
    try:
        lower_kthvalue("torch-1.10")
    except RuntimeError as error:
        message = str(error)
    report.text('profile="torch-1.10" raises RuntimeError:')
    report.quote(message or "(nothing)")
    report.claim(
        "it is refused, by the name that PyTorch gives it",
        holds=message.startswith("kthvalue CUDA does not have a deterministic implementation"),
    )
    names = kernels(lower_kthvalue("complete"))
    report.text(f'profile="complete" lowers to the kernels: {", ".join(names) or "(none)"}')
    reason = pallas.reason_missing()
    if reason is not None:
        report.text(f"There are no kernels: {reason}.")
        report.claim("there it is computed by XLA's operations", holds=not names)
        return
    report.claim(
        "there it is an ordered kernel, and no atomic one",
        holds=bool(names) and all("_ordered" in name for name in names),
    )


def _smallest(values: jax.Array) -> jax.Array:
    return impl.kthvalue(values, 1).indices

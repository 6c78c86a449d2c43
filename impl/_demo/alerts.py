"""Section 2 of the demo: an op that raises under one profile and is ordered under another."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp

import impl
from impl._demo.report import Report


def lower_kthvalue(profile: str) -> str:
    """Returns ``kthvalue`` lowered for an NVIDIA GPU with the mode on, as text.

    Raises:
        RuntimeError: The profile has no deterministic implementation.
    """
    zeros = jnp.zeros(10_000, jnp.float32)
    with impl.deterministic(profile=profile):
        return impl.testing.lower(_smallest, zeros).as_text()


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
    program = lower_kthvalue("complete")
    operations = sorted(set(re.findall(r"stablehlo\.\w*(?:sort|gather|scatter)\w*", program)))
    report.text(f'profile="complete" lowers to {", ".join(operations)}')
    report.claim(
        "there it is a sort that keeps the order of equal elements",
        holds="stablehlo.sort" in operations and "is_stable = true" in program,
    )


def _smallest(values: jax.Array) -> jax.Array:
    return impl.kthvalue(values, 1).indices

"""Tools to test on a machine without a GPU what a GPU would compute.

A CPU then stands in for the GPU: it interprets the GPU's kernels, in any schedule. A program can
also be lowered for a GPU without being run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, get_args

import jax
from jax.sharding import AbstractDevice, AbstractMesh, AxisType

import spec
from impl._core import arguments
from impl._jax.releases import ABSTRACT_DEVICES_HAVE_PLATFORMS
from impl._kernels import pallas as _pallas
from impl._mode import compilation, emulation
from impl._mode.decide import Question, questions
from impl._mode.emulation import Emulation, Lowering, Seed
from impl._native import library as _library
from impl._soft_float64 import engines as _engines
from impl.diagnosis._processes import assert_processes_agree
from impl.programs._auditing.assertion import assert_deterministic
from impl.programs._differences.invariance import assert_invariant
from spec.engines import engines as of_spec

__all__ = [
    "Question",
    "Seed",
    "assert_deterministic",
    "assert_invariant",
    "assert_processes_agree",
    "emulate",
    "engine",
    "engines",
    "lower",
    "questions",
    "schedule",
    "unknown_compile_options",
]


#: The platforms of JAX that a program is lowered for.
_PLATFORMS = spec.platforms()


def emulate(
    platform: str, *, lowering: Lowering = "kernel", seed: int | Seed | None = None
) -> contextlib.AbstractContextManager[None]:
    """Makes the CPU stand in for a platform, with its rows, alerts and lowerings.

    It is a scope for this thread only, as ``impl.deterministic`` is.

    Args:
        platform: "cuda", "rocm", "tpu" or "cpu".
        lowering: "kernel" interprets the Pallas kernels for CUDA, or takes the operations that
            replace them if JAX has no backend for kernels; "xla" takes the XLA operations
            for a platform without kernels, "native" takes those for a CPU.
        seed: Permutes the sequence of kernel instances and of atomic updates, unless it is 0 or
            None. A ``Seed`` is read whenever a compiled program runs.

    Returns:
        A context manager, for this thread only.

    Raises:
        ValueError: There is no such platform or lowering.
        TypeError: ``seed`` is neither an int nor a ``Seed``.
    """
    arguments.check_choice("emulate", "platform", platform, _PLATFORMS)
    arguments.check_choice("emulate", "lowering", lowering, get_args(Lowering))
    if seed is not None:
        _check_seed("emulate", seed)
    return _emulated(Emulation(platform, lowering, seed))


def schedule(seed: int | Seed) -> contextlib.AbstractContextManager[None]:
    """Makes the CPU interpret the kernels for CUDA, in the schedule that ``seed`` picks.

    The result of the atomic path may change from seed to seed; the result of the ordered path must
    not. JAX compiles a jitted function again for each int. To run many schedules, pass one ``Seed``
    and set its ``value`` before each run.

    Args:
        seed: An int, or a ``Seed``, which is read whenever a compiled program runs; 0 is the
            schedule in which instances run in their order.

    Returns:
        A context manager, for this thread only.

    Raises:
        TypeError: ``seed`` is neither an int nor a ``Seed``.
    """
    _check_seed("schedule", seed)
    _pallas.load_interpreter()  # A program whose first call loads it would be traced twice.
    return emulate("cuda", seed=seed)


def lower(
    function: Callable[..., Any],
    *args: Any,
    platform: str = "cuda",
    device_kind: str = "NVIDIA H200",
) -> jax.stages.Lowered:
    """Lowers a function for a platform, which this machine need not have.

    Args:
        function: The function.
        *args: Its arguments: arrays, or ``jax.ShapeDtypeStruct``.
        platform: "cuda", "rocm", "tpu" or "cpu".
        device_kind: The kind of device, as JAX names it; kernels may depend on it.

    Returns:
        The lowered program; ``as_text()`` shows the names of its kernels.

    Raises:
        RuntimeError: The mode is on, and an op has no deterministic implementation for the
            platform.
        TypeError: ``function`` cannot be called.
        ValueError: There is no such platform.
    """
    arguments.check_callable("lower", "function", function)
    arguments.check_choice("lower", "platform", platform, _PLATFORMS)
    with jax.sharding.use_abstract_mesh(_mesh(device_kind)):
        # jax 0.11 and later lower Triton kernels only if a mesh has a device of a known kind.
        lowered: jax.stages.Lowered = (
            jax.jit(function).trace(*args).lower(lowering_platforms=(platform,))
        )
    return lowered


def engine(name: str) -> contextlib.AbstractContextManager[Any]:
    """Makes the programs of ``guarantee="portable"`` compute with an engine.

    An engine is what stands for float64 on a device. Without this scope, the platform and the
    compute capability choose it. Every engine gives the same bits.

    Args:
        name: One of ``engines()``.

    Returns:
        A context manager, for this thread only.

    Raises:
        ValueError: There is no such engine.
        RuntimeError: It is "native", and this installation has no library of it.
    """
    arguments.check_choice("engine", "name", name, tuple(of_spec()))
    if name not in engines():
        raise RuntimeError(f"engine(): the engine {name!r} is missing: {_library.problem()}")
    return _engines.asked(name)


def engines() -> tuple[str, ...]:
    """Returns the names of the engines that this CPU can run.

    "native" is one of them if the installation has built its library.
    """
    return tuple(name for name in of_spec() if name != "native" or _library.is_available())


def unknown_compile_options() -> dict[str, spec.OptionValue]:
    """Returns the required compiler options that the installed jaxlib does not know.

    ``impl.compile_options`` leaves them out, so nothing does what their rows state.

    Returns:
        The value of each option, by its name. Empty if jaxlib knows all that are required.
    """
    return {setting.option: setting.value for setting in compilation.unknown_options()}


@contextlib.contextmanager
def _emulated(stand_in: Emulation) -> Iterator[None]:
    with emulation.scope(stand_in):
        yield


def _check_seed(function: str, seed: int | Seed) -> None:
    if isinstance(seed, bool) or not isinstance(seed, int | Seed):
        raise arguments.wrong_type(function, "seed", "int or impl.testing.Seed", seed)


def _mesh(device_kind: str) -> AbstractMesh:
    kind: dict[str, Any] = {"device_kind": device_kind, "num_cores": None}
    if ABSTRACT_DEVICES_HAVE_PLATFORMS:
        kind["platform"] = "gpu"
    device = AbstractDevice(**kind)
    # With explicit axes, JAX 0.12's default, mutable arrays take no value without a mesh.
    return AbstractMesh((1,), ("_",), axis_types=(AxisType.Auto,), abstract_device=device)

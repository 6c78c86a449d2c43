"""Running a call under a mode, on a device that is there or that the CPU stands in for."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any, TypeAlias

import jax
import numpy as np

import impl
import spec
from impl._mode import emulation
from impl._mode.decide import Action, Question, decide, questions
from impl._mode.emulation import Emulation

#: What kernels that are interpreted read when they run.
SEED = emulation.Seed()
#: The schedules that are tried; the first one is the order of the program ids.
SCHEDULES = range(21)
#: How the CPU stands in for a device whose lowerings it does not run by itself.
STAND_INS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    device.name: {
        name: {"lowering": name} | ({"seed": SEED} if name == "kernel" else {})
        for name in device.stand_ins
    }
    for device in spec.load().devices.values()
}


def here() -> str:
    """The device of the spec that JAX computes on in this process.

    Raises:
        RuntimeError: It is none of them.
    """
    backend = jax.default_backend()
    device = spec.load().backends.get(backend)
    if device is None:
        raise RuntimeError(
            f"JAX computes on {backend} here; set JAX_PLATFORMS to {' or to '.join(spec.DEVICES)}"
        )
    return device.name


def lowerings(namespace: ModuleType, device: str) -> list[str]:
    """The ways in which this process can run what ``device`` would."""
    if device == here():
        return ["native"]
    # Only our own implementation can be run by a stand-in.
    return list(STAND_INS[device]) if namespace is impl and here() == "cpu" else []


@contextlib.contextmanager
def running(device: str, lowering: str) -> Iterator[None]:
    """Inside, calls run as on ``device``, in the way named by ``lowering``."""
    if lowering == "native":
        yield
    else:
        with impl.testing.emulate(device, **STAND_INS[device][lowering]):
            yield


#: How a program that stands in for that of another device is compiled, where its bits count and
#: where they do not: in less time than one that is run in earnest. At level 0 products and sums
#: that could be one operation are left as they are, and a missing guard would not be found.
_EMITTERS = {"xla_cpu_use_fusion_emitters": False} if jax.__version_info__ < (0, 11) else {}
_STANDING_IN: Mapping[bool, Mapping[str, Any]] = {
    True: {"xla_backend_optimization_level": 1, **_EMITTERS},
    False: {"xla_backend_optimization_level": 0, **_EMITTERS},
}
#: What was compiled, by its text, and for what stands in whether its bits count.
_compiled: dict[tuple[str, bool | None], Any] = {}
#: What a platform does with a call, and how it is stood in for.
_Answer: TypeAlias = tuple[Action, Emulation | None]
_made: dict[Hashable, list[tuple[tuple[Question, ...], tuple[_Answer, ...], Any]]] = {}


def remembered(make: Callable[[], Any], platform: str, key: Hashable) -> Any:
    """What ``make`` makes, unless it made it for this key when the spec answered the same.

    A mode and a profile reach a program through the answers to what its ops ask, and only so:
    profiles that say the same of a call share what was made for the first. A namespace that asks
    nothing is not remembered, nor is anything where the key is None.

    Args:
        make: Makes a program for ``platform``, under the mode that holds.
        platform: The answers that count are those for it.
        key: What beside the mode the program depends on.
    """
    known = _made.setdefault((platform, key), []) if key is not None else []
    for asked, answers, made in known:
        if _answers(asked, platform) == answers:
            return made
    with questions() as heard:
        made = make()
    if heard:
        known.append((tuple(heard), _answers(heard, platform), made))
    return made


def _answers(asked: Iterable[Question], platform: str) -> tuple[_Answer, ...]:
    decisions = (decide(q.op, q.direction, **q.facts) for q in asked)
    return tuple((_any_row(d.on(platform)), d.emulation) for d in decisions)


def _any_row(action: Action) -> Action:
    """The action, whichever row decided: rows of two profiles may say the same.

    Nor does a program change with the name of the profile that an alert gives.
    """
    alert = action.alert and dataclasses.replace(action.alert, row=None, profile="any")
    return dataclasses.replace(action, row=None if action.row is None else "any", alert=alert)


def prepare(
    function: Callable[..., Any],
    inputs: tuple[Any, ...],
    key: Hashable = None,
    *,
    exact: bool = True,
) -> Callable[[], Any]:
    """Compiles a call, under the mode that holds; what it returns runs it, to NumPy arrays.

    Calls that give the same program are compiled once.

    Args:
        function: What to call.
        inputs: The arrays to call it with.
        key: As for ``remembered``.
        exact: Whether the bits of the result count.
    """
    arrays = _placed(inputs)

    def compiled() -> Any:
        lowered, text = _lowered_here(function, arrays, key)
        kind = None if emulation.current() is None else exact
        for known in (None, kind):
            if (text, known) in _compiled:
                return _compiled[text, known]
        options = None if kind is None else dict(_STANDING_IN[kind])
        _compiled[text, kind] = lowered.compile(options)
        return _compiled[text, kind]

    program = remembered(compiled, here(), None if key is None else (key, exact, "compiled"))
    return lambda: jax.tree.map(np.asarray, program(*arrays))


def scheduled(
    function: Callable[..., Any],
    inputs: tuple[Any, ...],
    key: Hashable = None,
    *,
    exact: bool = True,
) -> tuple[str, ...]:
    """Runs the kernels of a call under every schedule, each in its turn.

    The call must run by a stand-in that reads ``SEED``. What calls of one program give is found
    once.

    Returns:
        The SHA-256 of the result of each schedule.
    """

    def run() -> tuple[str, ...]:
        program = prepare(function, inputs, key, exact=exact)
        found = []
        try:
            for SEED.value in SCHEDULES:
                found.append(bits(program()))
        finally:
            SEED.value = SCHEDULES[0]
        return tuple(found)

    return tuple(remembered(run, here(), None if key is None else (key, exact, "scheduled")))


def _placed(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    placed: tuple[Any, ...] = jax.device_put(inputs)  # jax.numpy.asarray compiles a program for it
    return placed


def _lowered_here(
    function: Callable[..., Any], arrays: tuple[Any, ...], key: Hashable
) -> tuple[Any, str]:
    """The program lowered for the device that is here, and its text."""

    def lowered() -> tuple[Any, str]:
        made = jax.jit(function).lower(*arrays)
        return made, made.as_text()

    both = remembered(lowered, here(), None if key is None else (key, "lowered here"))
    return both[0], both[1]


def bits(result: Any) -> str:
    """SHA-256 of every bit of a result, its dtypes and its shapes."""
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(result):
        array = np.asarray(leaf)
        digest.update(f"{array.dtype} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def lower(
    function: Callable[..., Any], inputs: tuple[Any, ...], device: str, key: Hashable = None
) -> str:
    """The program lowered for ``device``, which need not be there.

    For the key see ``remembered``.
    """
    arrays = _placed(inputs)
    if device == here():
        return _lowered_here(function, arrays, key)[1]

    def lowered() -> str:
        return impl.testing.lower(function, *arrays, platform=device).as_text()

    return str(remembered(lowered, device, None if key is None else (key, "lowered")))

"""``impl.testing.assert_deterministic``: an audit, then runs whose bits are compared.

The audit finds each equation that can race, but it believes the rows. The runs believe nothing: a
CPU runs the program in several schedules of a GPU, each with the updates of scatters, the taps of
pools and the instances of kernels in another order, and the default device runs it again. A failure
reads for example::

    step is not deterministic on cuda, with the mode off: its output['w'] differs between schedule 0
    and schedule 1 (1 of 3 outputs differ)

    train.py:12: lax.scatter_add gives other bits for equal inputs.
      ...

The second part is the answer of ``impl.first_difference`` between the two runs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from typing import Any, Literal, TypeAlias, get_args

import jax

import spec
from impl._core import arguments
from impl._mode import emulation
from impl._mode.emulation import Emulation, Seed
from impl._reading.tracing import check_values
from impl.programs._auditing.audit import audit
from impl.programs._auditing.report import FAULTS, Finding, Verdict
from impl.programs._differences.first_difference import first_difference
from impl.programs._differences.invariance import Runs, whole

#: The checks, each of which includes those before it.
Level: TypeAlias = Literal["off", "audit", "schedules", "repeat"]
LEVELS: tuple[Level, ...] = get_args(Level)

_IN_WORDS: Mapping[Verdict, str] = {
    "varies": "varies from run to run",
    "unknown": "may vary: unknown",
    "raises": "raises an error",
}

#: The bits of the outputs of one run, by the path of each output.
_Bits: TypeAlias = dict[str, bytes]


def assert_deterministic(
    function: Callable[..., Any],
    *args: Any,
    device: str = "cuda",
    schedules: int = 5,
    allow: Collection[str] = (),
    level: Level = "repeat",
) -> None:
    """Raises unless a program gives the same bits in every run, as far as this machine can tell.

    It holds for the mode of the calling thread. First ``impl.audit`` reads the program. Then a CPU
    runs it in several schedules of a GPU, in which the updates of scatters, the taps of pools and
    the instances of kernels have other orders. Last, the default device runs it again and again.
    Arguments are copied for each run, so that functions may donate or change them. Where several
    processes have parts of them, each process has to call it. ::

        impl.testing.assert_deterministic(train_step, params, batch)

    Args:
        function: The program: as ``impl.audit`` takes it.
        *args: Its arguments.
        device: The device that the program is to be deterministic on: "cpu",
            "cuda" or "tpu".
        schedules: The number of schedules, and of repeated runs.
        allow: The findings to accept, each by the name of its primitive or the id of its row.
        level: The last check: "audit", "schedules" or "repeat"; "off" checks nothing.

    Raises:
        AssertionError: The audit has a finding that varies, is unknown or raises, or the bits of
            two runs differ. The message names the first finding or the first output.
        ValueError: An argument has a value that is not allowed.
        TypeError: An argument has a type that is not allowed.
    """
    __tracebackhide__ = True  # pytest shows the caller's line.
    arguments.check_callable("assert_deterministic", "function", function)
    _check(schedules, level)
    if level == "off":
        return
    report = audit(function, device=device)(*args)
    findings = [finding for verdict in FAULTS for finding in report.select(verdict)]
    faults = [f for f in findings if not {f.primitive, f.row} & set(allow)]
    name = getattr(function, "__name__", type(function).__name__)
    where = f"on {device}, with {report.mode}"
    if faults:
        refused = faults[0].verdict == "raises"
        is_bad = "is refused" if refused else "is not deterministic"
        raise AssertionError(f"{name} {is_bad} {where}: {_in_words(faults[0])}\n\n{report}")
    if level == "audit":
        return
    check_values("assert_deterministic", args, ", or level='audit'")
    if spec.load().devices[device].races:
        _compare(name, where, _scheduled(function, args, device, schedules), function, args)
    if level == "repeat":
        runs = _runs(function, args)
        repeated = ((f"run {number}", next(runs)) for number in range(1, schedules + 1))
        _compare(name, where, repeated, function, args)


def _check(schedules: int, level: str) -> None:
    if arguments.integer("assert_deterministic", "schedules", schedules) < 2:
        raise ValueError(
            f"assert_deterministic(): argument 'schedules' got {schedules}; at least 2 runs are "
            "compared"
        )
    arguments.check_choice("assert_deterministic", "level", level, LEVELS)


def _scheduled(
    function: Callable[..., Any], args: tuple[Any, ...], device: str, count: int
) -> Generator[tuple[str, _Bits], None, None]:
    """Yields the bits of a program in schedules of a GPU, through one compiled program."""
    seed, cpu = Seed(), jax.local_devices(backend="cpu")[0]
    platform = spec.load().devices[device].platforms[0]
    with emulation.scope(Emulation(platform, seed=seed)), jax.default_device(cpu):
        runs = _runs(function, jax.tree.map(lambda leaf: _moved(leaf, cpu), args))
        for value in range(count):
            seed.value = value
            yield f"schedule {value}", next(runs)


def _runs(function: Callable[..., Any], args: tuple[Any, ...]) -> Iterator[_Bits]:
    """Yields the bits of the outputs of one run after another, without an end."""
    program = Runs(function, args)
    while True:
        yield {path: array.tobytes() for path, array in program.run(program.leaves).items()}


def _moved(leaf: Any, device: jax.Device) -> Any:
    return jax.device_put(whole(leaf), device) if isinstance(leaf, jax.Array) else leaf


def _compare(
    name: str,
    where: str,
    runs: Generator[tuple[str, _Bits], None, None],
    function: Callable[..., Any],
    args: tuple[Any, ...],
) -> None:
    """Raises if a run has other bits than the first one."""
    __tracebackhide__ = True
    label, expected = next(runs)
    for other, bits in runs:
        differing = [path for path, value in expected.items() if bits.get(path) != value]
        if differing or len(bits) != len(expected):
            runs.close()  # This ends the schedule, which an error that is held would keep open.
            output = differing[0] if differing else "number of outputs"
            raise AssertionError(
                f"{name} is not deterministic {where}: its {output} differs between {label} and "
                f"{other} ({len(differing)} of {len(expected)} outputs differ)"
                f"{_first_difference(function, args, label, other)}"
            )


def _first_difference(
    function: Callable[..., Any], args: tuple[Any, ...], first: str, second: str
) -> str:
    """Returns what ``impl.first_difference`` finds, after two line breaks, or nothing."""
    between: tuple[Any, Any] = (None, None)
    if first.startswith("schedule"):
        numbers = (int(label.rpartition(" ")[2]) for label in (first, second))
        scopes = [emulation.scope(Emulation("cuda", seed=number)) for number in numbers]
        between = scopes[0], scopes[1]
    try:
        difference = first_difference(function, *args, between=between)
    except Exception as error:  # noqa: BLE001  # The failure itself must be shown.
        return f"\n\n(impl.first_difference could not find the equation: {error})"
    return "" if difference is None else f"\n\n{difference}"


def _in_words(finding: Finding) -> str:
    by = f" (by {finding.library})" if finding.library else ""
    remedy = f"\nTo do: {finding.remedy}" if finding.remedy else ""
    return f"{finding.primitive} at {finding.source}{by} {_IN_WORDS[finding.verdict]}.{remedy}"

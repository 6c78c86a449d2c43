"""Tests what each row states. The tests read the rows and repeat none of them.

A test takes a cell: a sample, a direction, a device and a profile. The behaviour that the rows
state there selects the tests, so that a new row is tested without a new test:

======================================================  =============  ============================
cell                                                    behaviour      tests
======================================================  =============  ============================
``R0001-index_add-forward-cuda-complete-floating``      deterministic  ``bits``, ``no_race``
``R0059-cumsum-forward-cuda-torch-2.12-floating``       raise          ``raise``, ``warn_only``
``R0070-empty-forward-cuda-complete-floating``          fill           ``fill``
``unlisted-index_add-forward-cpu-torch-2.12-floating``  None           ``unlisted``
======================================================  =============  ============================

``test_off`` also calls the op with the mode off, in one cell for each path of the code.
``test_no_silent_race`` reads the programs of a call under all profiles.

Under adversarial schedules, a call that the mode makes deterministic must have the same bits
(``test_schedules``). A row may state that nothing is guaranteed with the mode off. Some call of it
must then have several results (``test_varies``): otherwise the statement is wrong, or the schedules
cannot show a race.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Hashable, Sequence
from typing import Any

import pytest

import spec
from conformance import bits
from conformance.adapters.base import Adapter
from conformance.cases.table import Sample, samples
from conformance.lab.readers import stablehlo
from conformance.suite.cells import Cell, words_of

EVERY = (None, *spec.BEHAVIOURS)
#: The number of runs of a program after which its arrays are copied to the device again.
_RUNS_PER_COPY = 10
ALERT = "does not have a deterministic implementation"
#: The stand-in that interprets kernels, and so can choose the order of their programs.
KERNEL = "kernel"


def mode(implementation: Adapter, cell: Cell, **options: Any) -> Any:
    """Returns a scope with the mode on, under the cell's profile."""
    return implementation.mode(profile=cell.profile, **options)


def call(implementation: Adapter, cell: Cell) -> tuple[Any, tuple[Any, ...]]:
    """Returns the function that a cell tests, and its inputs."""
    return cell.sample.function(implementation, cell.direction), cell.inputs


def lowerings(implementation: Adapter, cell: Cell) -> Sequence[str]:
    """Returns the lowerings and stand-ins by which a cell runs here. Skips if there are none."""
    names = implementation.lowerings(cell.device)
    if not names:
        pytest.skip(f"nothing here can run what {cell.device} would")
    return names


def judge(implementation: Adapter, cell: Cell, result: Any) -> None:
    """Compares a result with the expected one, unless that is a choice of this project."""
    if implementation.of_this_project or cell.direction not in cell.sample.choices:
        cell.sample.judge(cell.direction, result)


@functools.cache
def digest_of_oracle(sample: Sample, direction: spec.Direction) -> str:
    """Returns the digest of the bits of a call, which cells of several profiles ask for."""
    oracle = sample.oracle(direction)
    assert oracle is not None, f"the sample {sample.name!r} has no oracle: add `ordered`"
    return bits.digest(oracle(*sample.inputs(direction)))


def alerts(implementation: Adapter, cell: Cell) -> list[str]:
    """Attempts a call and returns its warnings."""
    function, inputs = call(implementation, cell)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        implementation.attempt(function, inputs, cell.device)
    messages = [str(warning.message) for warning in caught if warning.category is UserWarning]
    if implementation.of_this_project:
        return messages
    return [message for message in messages if ALERT in message]


def beginning(implementation: Adapter, cell: Cell) -> str:
    """Returns the beginning of the alert of a cell, as far as the rows state it."""
    row = cell.expected_row
    if row is not None and row.message and implementation.release:
        return row.message
    # A row that names no caller is about a message of PyTorch's, which others cannot give.
    caller = cell.caller or (row.op if row and not implementation.release else None)
    return f"{caller} {ALERT}" if caller else ""


def path(implementation: Adapter, cell: Cell) -> Hashable:
    """Returns a key of the code that computes a call on the device of a cell.

    On a GPU it is the call. On a CPU, and for a device that a CPU stands in for, it is the row with
    the words among the facts: what an op does before it reaches the path of a device is the same on
    every device.
    """
    if cell.device != "cpu" and "native" in implementation.lowerings(cell.device):
        return cell.device, cell.call()
    row = cell.answer.row and cell.answer.row.id
    return cell.device, cell.op, cell.direction, row, words_of(cell.sample)


def contracts(cell: Cell) -> bool:
    """Returns whether a cell is the first of its op with a path and dtypes, in its direction.

    The stand-ins of such a cell are compiled at a level of XLA that fuses products with sums, which
    takes twice as long.
    """

    def key(sample: Sample) -> Hashable:
        return words_of(sample), *(array.dtype for array in sample.arrays)

    alike = (s for s in samples(cell.op) if cell.direction in s.directions)
    return next(s for s in alike if key(s) == key(cell.sample)) is cell.sample


def alert_of(implementation: Adapter, cell: Cell) -> Hashable:
    """Returns a key of the alert of a call, which names a row and a caller, and of the call's code.

    ``test_raise`` reads the alert of every call.
    """
    return path(implementation, cell), cell.row and cell.row.id, cell.caller


def _lowerings_apart(implementation: Adapter, cell: Cell) -> Sequence[str]:
    """Returns the lowerings of a call with the mode on, one for each program."""
    names = lowerings(implementation, cell)
    # Profiles differ in the calls that they list, and take one path for those that they order.
    if len(names) == 1 or cell.profile != spec.load().own_profile:
        return names[:1]
    with mode(implementation, cell):
        program = implementation.program(*call(implementation, cell), cell.device, cell.call())
    return names if stablehlo.has_schedule(program) else names[:1]


@pytest.mark.again
@pytest.mark.about("deterministic")
def test_bits(
    implementation: Adapter, cell: Cell, repeats: int, record: Any, under_load: Any
) -> None:
    """With the mode on, every lowering and every run gives the bits of the order's oracle.

    A row may promise only that runs have equal bits, and an implementation may have orders of its
    own. The test then compares the bits of runs with one another.
    """
    function, inputs = call(implementation, cell)
    assert cell.expected_row is not None
    of_oracle, first_digests = None, dict[str, str]()
    if cell.states_bits and implementation.keeps_orders:
        of_oracle = digest_of_oracle(cell.sample, cell.direction)
    exact = of_oracle is not None and contracts(cell)
    reference = f"the oracle of {cell.expected_row.order!r}" if of_oracle else "a run before"
    for lowering in _lowerings_apart(implementation, cell):
        evidence = "hardware" if lowering == "native" else None
        entry = record(cell, "bits", lowering=lowering, evidence=evidence)
        with mode(implementation, cell), implementation.running(cell.device, lowering):
            run = implementation.prepare(function, inputs, cell.call(lowering), exact=exact)
            with under_load() as other_work:
                for number in range(repeats if lowering == "native" else 1):
                    # The program is the same, but its arrays get other addresses.
                    if number % _RUNS_PER_COPY == _RUNS_PER_COPY - 1:
                        run = implementation.prepare(
                            function, inputs, cell.call(lowering), exact=exact
                        )
                    result = run()
                    entry["sha256"] = digest = bits.digest(result)
                    assert digest == (of_oracle or first_digests.setdefault(lowering, digest)), (
                        f"{cell.op} on {cell.device}, lowering {lowering!r}, differs from "
                        f"{reference}"
                    )
        judge(implementation, cell, result)
        if other_work and lowering == "native":
            entry.setdefault("detail", f"{repeats} runs during {other_work}")


def test_bits_under_portable(implementation: Adapter, portable_cell: Cell, record: Any) -> None:
    """A GPU has the bits of every device if it is asked for them.

    JAX's primitives compute them, by their rules under the guarantee.
    """
    if not implementation.of_this_project:
        pytest.skip("the guarantee is this project's alone")
    cell, row = portable_cell, portable_cell.row
    assert row is not None
    record(cell, "bits under portable", lowering="native")
    function, inputs = call(implementation, cell)
    scope = implementation.namespace.deterministic
    with scope(profile=cell.profile, guarantee="portable"):
        result = implementation.prepare(function, inputs, (*cell.call(), "portable"))()
    of_oracle = digest_of_oracle(cell.sample, cell.direction)
    assert bits.digest(result) == of_oracle, f"{cell.op} under portable differs from the oracle"


@pytest.mark.about(*EVERY, profiles="one", alike=path)  # with the mode off no profile differs
def test_off(implementation: Adapter, cell: Cell, record: Any, pytestconfig: pytest.Config) -> None:
    """With the mode off the op runs, and its result is right up to rounding.

    It is after ``test_bits``, which often has compiled the same program. Stand-ins run no program
    again that the mode leaves as it is.
    """
    function, inputs = call(implementation, cell)
    of_all = pytestconfig.getoption("--profile") in (None, spec.load().own_profile)
    if of_all and _is_unchanged(implementation, cell):
        return
    for lowering in lowerings(implementation, cell)[:1]:
        record(cell, "off", lowering=lowering)
        with implementation.mode(False), implementation.running(cell.device, lowering):
            result = implementation.prepare(function, inputs, cell.call(lowering), exact=False)()
        judge(implementation, cell, result)


def _is_unchanged(implementation: Adapter, cell: Cell) -> bool:
    """Returns whether ``test_bits`` runs stand-ins for a call that the mode leaves as it is."""
    own, facts = spec.load().own_profile, cell.sample.facts
    is_native = "native" in implementation.lowerings(cell.device)
    if own is None or is_native or not implementation.can_lower:
        return False
    answer = spec.resolve(cell.op, cell.direction, cell.device, facts, own)
    if answer.behaviour != "deterministic":
        return False
    function, inputs = call(implementation, cell)
    programs = []
    for scope in (implementation.mode(False), implementation.mode(profile=own)):
        with scope:
            programs.append(implementation.program(function, inputs, cell.device, cell.call()))
    return are_alike(*programs)


def are_alike(program: str, other: str) -> bool:
    """Returns whether two programs are one, up to the lines of their source."""
    if stablehlo.without_kernel_code(program) != stablehlo.without_kernel_code(other):
        return False
    return stablehlo.kernels(program) == stablehlo.kernels(other)


@pytest.mark.about("deterministic", device="cuda")  # XLA's scatter on a CPU is serial
def test_no_race(implementation: Adapter, cell: Cell, record: Any) -> None:
    """With the mode on, the program lowered for CUDA has no race.

    It has no loop over updates either, unless JAX lacks the backend of the kernels.
    """
    if not implementation.can_lower:
        pytest.skip("it has no programs to read")
    record(cell, "no race", evidence="static")
    function, inputs = call(implementation, cell)
    with mode(implementation, cell):
        program = implementation.program(function, inputs, cell.device, cell.call())
    races = stablehlo.races(program)
    assert not races, f"as lowered for {cell.device} it depends on timing: {', '.join(races)}"
    # Serial updates have an order as well, but are too slow on a GPU.
    loops = stablehlo.long_loops(program) if implementation.has_kernels() else []
    assert not loops, f"as lowered for {cell.device} it loops over updates: {', '.join(loops)}"


def test_no_silent_race(
    implementation: Adapter, under_profiles: Sequence[Cell], record: Any
) -> None:
    """With the mode on, no call races on CUDA without an alert, whatever its profile lists.

    ``test_raise`` tests the calls that give an alert. A call that no row is about may write one
    value several times. It passes if it has the same bits in every schedule, or if the
    implementation has no schedules.
    """
    if not implementation.can_lower:
        pytest.skip("it has no programs to read")
    record(under_profiles[0], "no silent race")
    for cell in under_profiles:
        if cell.listed == "raise":
            continue
        function, inputs = call(implementation, cell)
        # The keys of ``test_no_race`` and ``test_unlisted``, whose programs these are. The latter
        # shows that the mode reaches a program only through the answers of the spec.
        key = cell.call() if cell.answer.row else (*cell.call(), "on")
        with mode(implementation, cell):
            races = _races_of(implementation.program(function, inputs, cell.device, key))
            if races and cell.answer.row is None and not _varies(implementation, cell):
                races = ()
        assert not races, f"under {cell.profile} it depends on timing: {', '.join(races)}"


def _varies(implementation: Adapter, cell: Cell) -> bool:
    """Returns whether a call has several results under the schedules of its kernels."""
    if "kernel" not in implementation.lowerings(cell.device):
        return False
    function, inputs = call(implementation, cell)
    with implementation.running(cell.device, "kernel"):
        digests = implementation.digests_by_schedule(function, inputs, cell.call("kernel"))
    return len(set(digests)) > 1


@functools.lru_cache(maxsize=8)
def _races_of(program: str) -> Sequence[str]:
    """Returns the races of a program, which several profiles often share."""
    return stablehlo.races(program)


@pytest.mark.about("raise")
def test_raise(implementation: Adapter, cell: Cell, record: Any) -> None:
    """With the mode on, the call raises. The message names the row's caller and the remedies."""
    record(cell, "raise")
    function, inputs = call(implementation, cell)
    assert cell.expected_row is not None
    with mode(implementation, cell), pytest.raises(RuntimeError) as caught:
        implementation.attempt(function, inputs, cell.device)
    message = str(caught.value)
    assert message.startswith(beginning(implementation, cell))
    remedies = ("deterministic(False)", "warn_only=True", "complete")
    words = (cell.profile, cell.expected_row.id, *remedies, ALERT)
    for word in words if implementation.of_this_project else ():
        assert word in message
    # The message offers to turn the mode off for this call alone.
    with mode(implementation, cell), implementation.mode(False):
        implementation.attempt(function, inputs, cell.device, cell.call())


@pytest.mark.about("raise", alike=alert_of)
def test_warn_only(implementation: Adapter, cell: Cell, record: Any) -> None:
    """With ``warn_only``, the call warns, and its result is right."""
    record(cell, "warn only")
    function, inputs = call(implementation, cell)
    with mode(implementation, cell, warn_only=True):
        messages = alerts(implementation, cell)
        assert messages, "nothing was said"
        assert all(message.startswith(beginning(implementation, cell)) for message in messages)
        for lowering in lowerings(implementation, cell)[:1]:
            with implementation.running(cell.device, lowering), warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                key = cell.call(lowering)
                result = implementation.prepare(function, inputs, key, exact=False)()
            judge(implementation, cell, result)


def unlisted_path(implementation: Adapter, cell: Cell) -> Hashable:
    """Returns a key of a profile, and of the code of a call that it does not list.

    Calls that no row is about may have nothing in common.
    """
    return cell.profile, path(implementation, cell) if cell.answer.row else (
        cell.device,
        cell.call(),
    )


@pytest.mark.about(None, alike=unlisted_path)
def test_unlisted(implementation: Adapter, cell: Cell, record: Any) -> None:
    """A call that the profile does not list has the program that our own profile gives it.

    A call that no row is about keeps the program that it has with the mode off. So does any call of
    a release of PyTorch, which has no other profile.

    An implementation without programs gives no alert and a right result. On a CPU the result has
    the bits of that other call.
    """
    record(cell, "unlisted")
    function, inputs = call(implementation, cell)
    if implementation.release is not None or cell.answer.row is None:
        reference = implementation.mode(False)
    else:
        reference = implementation.mode(profile=spec.load().own_profile)
    if not implementation.can_lower:
        with mode(implementation, cell, warn_only=True):
            assert alerts(implementation, cell) == []
        with implementation.running(cell.device, "native"):
            run = implementation.prepare(function, inputs, cell.call())
            with mode(implementation, cell):
                result = run()
            judge(implementation, cell, result)
            # A GPU may give other bits at each run, and fresh memory holds anything.
            if cell.device == "cpu" and cell.sample.filled is None:
                with reference:
                    assert bits.digest(result) == bits.digest(run())
        return
    with reference:
        other = implementation.program(function, inputs, cell.device, cell.call())
    # The key differs, so that the other program is not reused where the spec gives the same
    # answers: the mode could change a program without the spec.
    with mode(implementation, cell):
        program = implementation.program(function, inputs, cell.device, (*cell.call(), "on"))
    assert are_alike(program, other)


@pytest.mark.about("fill")
def test_fill(implementation: Adapter, cell: Cell, record: Any) -> None:
    """With the mode on, fresh memory holds the known value, in every bit."""
    function, inputs = call(implementation, cell)
    assert cell.sample.filled is not None, f"the sample {cell.sample.name!r} lacks `filled`"
    of_filled = bits.digest(cell.sample.filled(*inputs))
    for lowering in lowerings(implementation, cell):
        record(cell, "fill", lowering=lowering, sha256=of_filled)
        with mode(implementation, cell), implementation.running(cell.device, lowering):
            result = implementation.prepare(function, inputs, cell.call(lowering))()
        assert bits.digest(result) == of_filled
        judge(implementation, cell, result)


def skip_others(implementation: Adapter) -> None:
    """Skips an implementation that has no schedules."""
    if not implementation.of_this_project:
        pytest.skip("the atomic path and its kernels are this project's alone")


@pytest.mark.about("deterministic", device="cuda")
def test_schedules(implementation: Adapter, cell: Cell, record: Any) -> None:
    """With the mode on, kernels and scatters give the same bits under every schedule."""
    skip_others(implementation)
    if KERNEL not in implementation.lowerings(cell.device):
        pytest.skip("here kernels run as the hardware has them")
    function, inputs = call(implementation, cell)
    with mode(implementation, cell):
        program = implementation.program(function, inputs, cell.device, cell.call())
        if not stablehlo.has_schedule(program):
            return  # Every schedule of it is the same, which is not evidence.
        entry = record(cell, "schedules", lowering=KERNEL, evidence="scheduled")
        with implementation.running(cell.device, KERNEL):
            digests = implementation.digests_by_schedule(
                function, inputs, cell.call(KERNEL), exact=False
            )
    entry["sha256"], entry["detail"] = digests[0], f"{len(digests)} schedules"
    other = next((seed for seed, digest in enumerate(digests) if digest != digests[0]), None)
    assert other is None, (
        f"{cell.op} on {cell.device} has {len(set(digests))} results in {len(digests)} schedules: "
        f"what impl.testing.schedule({other}) gives differs from the order of the program ids"
    )


@pytest.mark.about("deterministic", device="cuda")
def test_race_is_stated(implementation: Adapter, cell: Cell, record: Any) -> None:
    """The row states that nothing is guaranteed where the program with the mode off races."""
    skip_others(implementation)
    assert cell.row is not None
    record(cell, "race is stated")
    races = _races(implementation, cell)
    assert cell.row.mode_off or not races, (
        f"{races} depend on timing with the mode off: {cell.row.id} needs mode_off = "
        '"not_guaranteed"'
    )


def test_varies(
    implementation: Adapter, calls: Sequence[Cell], repeats: int, record: Any, under_load: Any
) -> None:
    """Some call of a row that guarantees nothing with the mode off has several results."""
    skip_others(implementation)
    racing = [cell for cell in calls if _races(implementation, cell)]
    row = calls[0].row
    assert row is not None
    assert racing, f"nothing that {row.id} speaks of depends on timing; it has no `mode_off`"
    lowering = implementation.lowerings(racing[0].device)[0]
    entry = record(racing[0], "varies", lowering=lowering)
    digests: Sequence[str] = ()
    for cell in racing:
        entry.update(cell.about)
        with under_load():
            digests = _digests(implementation, cell, lowering, repeats)
        if len(set(digests)) > 1:
            break
    count = len(set(digests))
    entry["detail"] = f"{count} results with the mode off"
    # A GPU may keep one order for as long as the test runs.
    assert count > 1 or lowering == "native", (
        f"with the mode off {row.id} gives the same bits in all {len(digests)} schedules: add a "
        "sample in which at least three roughly equal numbers meet, or the row has no `mode_off`"
    )


def _races(implementation: Adapter, cell: Cell) -> list[str]:
    function, inputs = call(implementation, cell)
    with implementation.mode(False):
        program = implementation.program(function, inputs, cell.device, cell.call())
    return stablehlo.races(program)


def _digests(implementation: Adapter, cell: Cell, lowering: str, repeats: int) -> Sequence[str]:
    """Returns the digest of each result of a call with the mode off."""
    function = cell.sample.function(implementation, cell.direction)
    with implementation.mode(False), implementation.running(cell.device, lowering):
        if lowering != "native":
            return implementation.digests_by_schedule(
                function, cell.inputs, cell.call(lowering), exact=False
            )
        run = implementation.prepare(function, cell.inputs, cell.call())
        return [bits.digest(run()) for _ in range(repeats)]

"""Decisions of rows, for the device and for one that it stands in for.

Tests: impl._mode.emulation.
"""

import dataclasses
from concurrent.futures import ThreadPoolExecutor

import pytest

import impl
import spec
from impl._mode import emulation
from impl._mode.decide import Action, Alert, Decision, decide
from impl._mode.emulation import Emulation, Seed


def alerted(kind, caller, row, profile):
    return Action(Alert(kind, caller, row, profile), row=row)


OLD = {"profile": "torch-1.10"}
CUMSUM = ("cumsum", "forward", {"dtype": "floating"})
R0060 = Action(row="R0060")
INDEX_ADD = ("index_add", "forward", {"dtype": "floating"})
GATHER = ("gather", "backward", {"input_ndim": 2})
MV = ("mv", "forward", {"sparse": False, "cublas_workspace_config": ""})
RAISED = alerted("raise", "cumsum_cuda_kernel", "R0059", "torch-2.12")
WARNED = alerted("warn", "cumsum_cuda_kernel", "R0059", "torch-2.12")
OF_GATHER = alerted("raise", "scatter_add_cuda_kernel", "R0082", "torch-1.10")
#: A row with a message of PyTorch's names no caller.
OF_MV = alerted("raise", "mv", "R0144", "torch-1.10")


def empty(fills):
    return "empty", "forward", {"fill_uninitialized_memory": fills}


@pytest.mark.parametrize(
    ("question", "options", "actions"),
    [
        (CUMSUM, {}, (R0060, RAISED, R0060)),
        (CUMSUM, {"warn_only": True}, (R0060, WARNED, R0060)),
        (CUMSUM, {"profile": "complete"}, [R0060] * 3),
        (CUMSUM, {"mode": False}, [Action()] * 3),
        (("cumsum", "forward", {"dtype": "integer"}), {}, [R0060] * 3),
        (INDEX_ADD, {}, (Action(row="R0002"), Action(row="R0001"), Action())),
        (GATHER, OLD, (Action(row="R0084"), OF_GATHER, Action())),
        (MV, OLD, (Action(row="R0145"), OF_MV, Action(row="R0145"))),
        (empty(True), {}, [Action(fill=True, row="R0070")] * 3),
        (empty(False), {}, [Action()] * 3),
    ],
)
def test_a_row_decides_on_its_device(question, options, actions):
    (op, direction, facts), (on_cpu, on_cuda, elsewhere) = question, actions
    with impl.deterministic(**options):
        decision = decide(op, direction, **facts)
    assert [decision.on(name) for name in ("cpu", "cuda", "rocm", "metal")] == [
        *(on_cpu, on_cuda, on_cuda, elsewhere)
    ]
    alerts = [(name, on_cuda.alert) for name in ("cuda", "rocm") if on_cuda.alert is not None]
    assert list(decision.alerts) == alerts
    assert len({decision, dataclasses.replace(decision)}) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        decision.elsewhere = None


@pytest.mark.parametrize("profile", spec.load().profiles)
def test_what_a_profile_does_not_list_takes_the_path_of_our_own_profile(profile):
    with impl.deterministic(profile=profile):
        decision = decide("take", "backward", dtype="floating")
    assert [decision.on(name).row for name in ("cuda", "tpu", "metal")] == ["R0183"] * 3
    assert decision.alerts == ()


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize(
    ("op", "direction", "facts", "message"),
    [
        ("cumsm", "forward", {}, "no row is about the op 'cumsm'; close to it: cumsum"),
        ("bincount", "backward", {}, r"bincount \(backward\); the rows are about \['forward'\]"),
        ("cumsum", "forward", {"colour": "red"}, r"\['colour'\] of cumsum; its rows ask for"),
    ],
)
def test_what_no_row_is_about_is_refused(op, direction, facts, message, enabled):
    with impl.deterministic(enabled), pytest.raises(spec.SpecError, match=message):
        decide(op, direction, **facts)


def test_facts_have_the_right_types_and_are_stated():
    with impl.deterministic():
        with pytest.raises(spec.SpecError, match="'float32'"):
            decide("cumsum", dtype="float32")
        with pytest.raises(spec.SpecError, match="dtype"):
            decide("cumsum")


@pytest.mark.parametrize("enabled", [True, False])
def test_emulation_gives_the_cpu_the_actions_of_another_platform(enabled):
    with impl.deterministic(enabled), impl.testing.emulate("cuda"):
        decision = decide("cumsum", dtype="floating")
    assert decision.on("cpu") == decision.on("cuda")
    assert decision.on("tpu").alert is None
    assert [platform for platform, _ in decision.alerts] == ["cpu", "cuda", "rocm"] * enabled
    with impl.deterministic(profile="complete"), impl.testing.emulate("tpu"):
        assert decide("index_add", dtype="floating").on("cpu").row == "R0001"


def test_a_stand_in_holds_in_one_thread_and_two_seeds_of_one_value_differ():
    assert emulation.current() is None
    assert decide("cumsum", dtype="floating") == Decision()
    stand_in = Emulation("cuda", lowering="kernel", seed=None)
    assert stand_in == Emulation("cuda")
    with emulation.scope(stand_in), ThreadPoolExecutor(1) as pool:
        assert pool.submit(emulation.current).result() is None
    first, second = Seed(), Seed()
    assert first.value == second.value == 0
    assert Emulation("cuda", seed=first) != Emulation("cuda", seed=second)
    assert Emulation("cuda", seed=first) == Emulation("cuda", seed=first)

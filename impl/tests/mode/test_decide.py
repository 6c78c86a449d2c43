"""Decisions of rows, for the device and for one that it stands in for.

Tests: impl._mode.emulation.
"""

import dataclasses
import threading
import types

import pytest

import impl
import spec
from impl._mode import compilation, emulation
from impl._mode import decide as module
from impl._mode.decide import Action, Alert, Decision, decide
from impl._mode.emulation import Emulation, Seed


def profile(name, release, *, default=False):
    return spec.Profile(name=name, title="", statement="", release=release, default=default)


def row(op, device, behaviour, own=None, **fields):
    made = {
        "id": f"{op}-{device}-{behaviour or own}",
        "family": op,
        "op": op,
        "torch": op,
        "device": device,
        "direction": "forward",
        "when": {},
        "condition": "",
        "behaviour": {"strict": behaviour, "empty": None, "own": own},
        "sources": (),
        "order": "sum" if "deterministic" in (behaviour, own) else None,
    }
    return spec.Row(**{**made, **fields})


def fact(name, type_, *values, every_op=False):
    return spec.Fact(name, type_, about="", values=values, english={}, every_op=every_op)


def order(name, *free_when):
    return spec.Order(name=name, title="", statement="", order_free_when=free_when)


SMALL = spec.Spec(
    rows=(
        row("ordered", "cuda", "deterministic"),
        row("unordered", "any", "deterministic", order=None),
        row(
            "raises", "cuda", "raise", callers={"strict": "raises_kernel", "other": "other_kernel"}
        ),
        row("nameless", "cuda", "raise"),
        row("fills", "any", "fill"),
        row("narrow", "cuda", "deterministic"),
        row("narrow", "cuda", "raise", when={"input_ndim": {"min": 2}}),
        row(
            "narrow",
            "cuda",
            "fill",
            id="narrowest",
            when={"input_ndim": {"min": 3}, "dtype": ("floating", "complex")},
        ),
        row("named", "any", "deterministic"),
        row("named", "cuda", "raise"),
        row("retired", "cuda", "raise", state="out_of_scope"),
        row("pulled", "cuda", "raise", direction="backward"),
        row("asks", "cpu", "raise", when={"weights": True}),
        row("silent", "cuda", None, "deterministic", mode_off="not_guaranteed"),
        row("silent", "cpu", None, "deterministic"),
        row("memory", "any", None, "fill", when={"fill_uninitialized_memory": True}),
        row("refused", "cuda", "raise", when={"input_ndim": {"min": 2}}),
        row("refused", "any", None, "deterministic", mode_off="not_guaranteed"),
    ),
    profiles={
        "empty": profile("empty", "1.0"),
        "strict": profile("strict", "2.0", default=True),
        "own": profile("own", ""),
    },
    orders={
        "sum": order("sum", {"dtype": ("integer", "bool")}, {"unique": True}),
    },
    facts={
        "dtype": fact("dtype", "choice", "floating", "complex", "integer", "bool", every_op=True),
        "fill_uninitialized_memory": fact("fill_uninitialized_memory", "bool"),
        "input_ndim": fact("input_ndim", "int"),
        "unique": fact("unique", "bool"),
        "weights": fact("weights", "bool"),
    },
    devices=spec.load().devices,
    documents=types.MappingProxyType({}),
    data=spec.load().data,
)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(spec, "load", lambda: SMALL)
    monkeypatch.setattr(
        compilation, "set_for_process", lambda: None
    )  # The small spec has no options.
    forget()
    impl.use_deterministic_algorithms(True, profile="strict")
    yield
    forget()


def forget():
    module._decide.cache_clear()
    module._check.cache_clear()


def on_cuda(op, direction="forward", /, **facts):
    return decide(op, direction, **facts).on("cuda")


def test_a_row_decides_on_its_device():
    decision = decide("ordered", dtype="floating")
    ordered = Action(row="ordered-cuda-deterministic")
    assert decision.on("cuda") == ordered
    assert decision.on("rocm") == ordered
    assert decision.on("cpu") == Action()
    assert decision.on("tpu") == Action()
    assert decision.alerts == ()
    assert decision == Decision(
        (("cpu", Action()), ("cuda", ordered), ("rocm", ordered), ("tpu", Action())),
        elsewhere=Action(),
    )


def test_a_row_for_any_device_holds_everywhere():
    decision = decide("unordered")
    for platform in ("cpu", "cuda", "rocm", "tpu"):
        assert decision.on(platform) == Action(row="unordered-any-deterministic")


def test_decisions_are_hashable():
    assert len({decide("raises"), decide("raises"), decide("ordered")}) == 2


def test_raise():
    alert = Alert("raise", "raises_kernel", "raises-cuda-raise", "strict")
    decision = decide("raises")
    assert decision.on("cuda") == Action(alert=alert, row="raises-cuda-raise")
    assert decision.on("cpu") == Action()
    assert decision.alerts == (("cuda", alert), ("rocm", alert))


def test_warn_only_warns():
    impl.use_deterministic_algorithms(True, warn_only=True)
    alert = Alert("warn", "raises_kernel", "raises-cuda-raise", "strict")
    assert on_cuda("raises") == Action(alert=alert, row="raises-cuda-raise")
    assert on_cuda("ordered").row == "ordered-cuda-deterministic"


def test_a_row_that_names_no_caller_gives_the_op():
    assert on_cuda("nameless").alert.caller == "nameless"


def test_fill():
    assert on_cuda("fills") == Action(fill=True, row="fills-any-fill")


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize(
    ("op", "direction", "facts", "message"),
    [
        ("order", "forward", {}, "no row is about the op 'order'; close to it: ordered, unordered"),
        ("retired", "forward", {}, "no row is about the op 'retired'"),
        ("pulled", "forward", {}, r"pulled \(forward\); the rows are about \['backward'\]"),
        ("raises", "backward", {}, r"raises \(backward\); the rows are about \['forward'\]"),
        ("ordered", "forward", {"weights": True}, r"\['weights'\] of ordered; its rows ask for"),
        ("ordered", "forward", {"colour": "red"}, r"\['colour'\] of ordered; its rows ask for"),
        ("raises", "forward", {"unique": True}, r"ask for \['dtype'\]"),
    ],
)
def test_what_no_row_is_about_is_refused(op, direction, facts, message, enabled):
    with impl.deterministic(enabled), pytest.raises(spec.SpecError, match=message):
        decide(op, direction, **facts)


def test_where_nothing_is_stated_nothing_changes():
    with impl.deterministic(profile="empty"):
        assert {on_cuda(op) for op in ("ordered", "raises", "fills")} == {Action()}


@pytest.mark.parametrize("profile", ["empty", "strict", "own"])
def test_what_a_profile_does_not_list_takes_the_path_of_our_own_profile(profile):
    with impl.deterministic(profile=profile):
        decision = decide("silent", dtype="floating")
        assert decision.on("cuda") == Action(row="silent-cuda-deterministic")
        assert decision.on("cpu") == Action(row="silent-cpu-deterministic")
        assert decision.on("tpu") == decision.on("cuda")
        assert decision.on("metal") == Action()
        memory = decide("memory", fill_uninitialized_memory=True)
        assert memory.on("cuda") == Action(fill=True, row="memory-any-fill")
        assert decide("memory", fill_uninitialized_memory=False).on("cuda") == Action()


def test_only_what_a_profile_lists_raises():
    ordered = Action(row="refused-any-deterministic")
    assert on_cuda("refused", input_ndim=1) == ordered
    for warn_only, kind in ((False, "raise"), (True, "warn")):
        with impl.deterministic(warn_only=warn_only):
            assert on_cuda("refused", input_ndim=2).alert.kind == kind
    for profile in ("empty", "own"):
        with impl.deterministic(profile=profile, warn_only=True):
            assert on_cuda("refused", input_ndim=2) == ordered


def test_a_row_is_for_one_direction():
    assert on_cuda("pulled", "backward").alert.row == "pulled-cuda-raise"


@pytest.mark.parametrize(
    ("ndim", "dtype", "row"),
    [
        (1, "floating", "narrow-cuda-deterministic"),
        (2, "floating", "narrow-cuda-raise"),
        (3, "complex", "narrowest"),
        (3, "integer", "narrow-cuda-raise"),
    ],
)
def test_the_narrowest_row_decides(ndim, dtype, row):
    assert on_cuda("narrow", input_ndim=ndim, dtype=dtype).row == row


def test_a_row_that_names_the_device_goes_before_one_for_any():
    decision = decide("named")
    assert decision.on("cuda").row == "named-cuda-raise"
    assert decision.on("cpu").row == decision.on("tpu").row == "named-any-deterministic"


def test_off_nothing_is_decided():
    with impl.deterministic(False):
        for op in ("ordered", "raises", "fills", "unordered"):
            assert decide(op) == Decision()
            assert on_cuda(op) == Action()


def test_the_mode_is_read_at_every_call():
    assert on_cuda("ordered").row == "ordered-cuda-deterministic"
    with impl.deterministic(False):
        assert on_cuda("ordered").row is None
    assert on_cuda("ordered").row == "ordered-cuda-deterministic"


@pytest.mark.parametrize("enabled", [True, False])
def test_emulation_gives_the_cpu_the_actions_of_another_platform(enabled):
    with impl.deterministic(enabled), impl.testing.emulate("cuda"):
        decision = decide("raises")
    assert decision.on("cpu") == decision.on("cuda")
    assert decision.on("tpu") == Action()
    assert [platform for platform, _ in decision.alerts] == ["cpu", "cuda", "rocm"] * enabled
    with impl.testing.emulate("tpu"):
        assert decide("named").on("cpu").row == "named-any-deterministic"


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"dtype": "float32"}, "'float32'"),
        ({"input_ndim": True}, "'input_ndim' got True"),
        ({"input_ndim": 2.0}, "'input_ndim' got 2.0"),
        ({"unique": 1}, "'unique' got 1"),
    ],
)
def test_facts_are_checked(facts, message):
    with pytest.raises(spec.SpecError, match=message):
        decide("narrow", **facts)


def test_a_fact_that_a_row_asks_for_must_be_stated():
    with pytest.raises(spec.SpecError, match="weights"):
        decide("asks")
    assert decide("asks", weights=False).on("cpu") == Action()
    assert decide("asks", weights=True).on("cpu").alert.kind == "raise"


def test_actions_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        on_cuda("ordered").row = None


CUDA = Emulation("cuda")


def test_there_is_no_stand_in_by_default():
    assert emulation.current() is None
    assert Emulation("cuda", lowering="kernel", seed=None) == CUDA


def test_a_scope_is_for_one_thread():
    in_thread = []
    with emulation.scope(CUDA):
        thread = threading.Thread(target=lambda: in_thread.append(emulation.current()))
        thread.start()
        thread.join()
    assert in_thread == [None]


def test_seeds_are_different_keys_whatever_their_values():
    first, second = Seed(), Seed()
    assert first.value == second.value == 0
    assert Emulation("cuda", seed=first) != Emulation("cuda", seed=second)
    assert Emulation("cuda", seed=first) == Emulation("cuda", seed=first)

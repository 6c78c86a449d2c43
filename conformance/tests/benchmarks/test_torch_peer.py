"""The peer leaves PyTorch's global state as it was; a small module stands in for PyTorch."""

import importlib.machinery
import sys
import types

import pytest

from conformance.benchmarks import torch_peer
from conformance.benchmarks.measurements import threads
from conformance.benchmarks.torch_peer import RefusedError


@pytest.fixture
def torch(monkeypatch):
    """A module with PyTorch's global state: the mode is on and only warns; three threads."""
    module = types.ModuleType("torch")
    module.__spec__ = importlib.machinery.ModuleSpec("torch", None)
    module.state = {"mode": True, "warn_only": True, "threads": 3}
    for device in ("cpu", "cuda"):
        setattr(module, device, types.SimpleNamespace(synchronize=lambda: None))

    def use_deterministic_algorithms(mode, *, warn_only=False):
        module.state |= {"mode": mode, "warn_only": warn_only}

    module.use_deterministic_algorithms = use_deterministic_algorithms
    module.are_deterministic_algorithms_enabled = lambda: module.state["mode"]
    module.is_deterministic_algorithms_warn_only_enabled = lambda: module.state["warn_only"]
    module.get_num_threads = lambda: module.state["threads"]
    module.set_num_threads = lambda count: module.state.update(threads=count)
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


def test_the_state_is_restored(torch):
    before = dict(torch.state)
    with torch_peer.torch_peer() as peer:
        assert peer.torch is torch
        assert torch.state == {"mode": False, "warn_only": False, "threads": threads()}
    assert torch.state == before
    with pytest.raises(KeyError), torch_peer.torch_peer():
        raise KeyError
    assert torch.state == before


def test_there_is_no_peer_without_pytorch(monkeypatch):
    monkeypatch.setattr(torch_peer.importlib.util, "find_spec", lambda _: None)
    with torch_peer.torch_peer() as peer:
        assert peer is None


@pytest.mark.parametrize(
    ("on_cpu", "modes"),
    [
        (True, {"PyTorch, deterministic": True}),
        (False, {"PyTorch": False, "PyTorch, deterministic": True}),
    ],
)
def test_each_side_has_its_mode_and_waits_for_the_device(on_cpu, modes, torch, monkeypatch):
    monkeypatch.setattr(torch_peer, "on_cpu", lambda: on_cpu)
    events = []
    device = torch.cpu if on_cpu else torch.cuda
    monkeypatch.setattr(device, "synchronize", lambda: events.append("waited"))
    with torch_peer.torch_peer() as peer:
        sides = peer.sides(lambda: events.append(torch.state["mode"]))
        for side in reversed(sides.values()):
            side()
    assert list(sides) == list(modes)
    assert events == [event for mode in reversed(modes.values()) for event in (mode, "waited")]


@pytest.mark.usefixtures("torch")
def test_an_op_without_a_deterministic_implementation_is_a_refusal():
    def fail(message):
        raise RuntimeError(message)

    with torch_peer.torch_peer() as peer:
        (side,) = peer.sides(lambda: fail("no deterministic implementation")).values()
        with pytest.raises(RefusedError, match="no deterministic implementation"):
            side()
        (side,) = peer.sides(lambda: fail("out of memory")).values()
        with pytest.raises(RuntimeError, match="out of memory"):
            side()

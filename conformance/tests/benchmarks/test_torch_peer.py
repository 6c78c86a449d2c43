"""The peer leaves PyTorch's global state as it was; a small module stands in for PyTorch."""

import importlib.machinery
import sys
import types

import pytest

from conformance.benchmarks import torch_peer
from conformance.benchmarks.timing import threads


@pytest.fixture
def torch(monkeypatch):
    """A module with PyTorch's global state; its mode warns, on three threads."""
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


@pytest.mark.parametrize(
    ("on_cpu", "deterministic_on_gpu", "mode"),
    [(True, True, True), (True, False, True), (False, True, True), (False, False, False)],
)
def test_the_mode_holds_inside_and_is_restored(
    on_cpu, deterministic_on_gpu, mode, torch, monkeypatch
):
    monkeypatch.setattr(torch_peer, "on_cpu", lambda: on_cpu)
    before = dict(torch.state)
    with torch_peer.torch_peer(deterministic_on_gpu=deterministic_on_gpu) as peer:
        assert peer.torch is torch
        assert torch.state == {"mode": mode, "warn_only": False, "threads": threads()}
    assert torch.state == before
    with (
        pytest.raises(KeyError),
        torch_peer.torch_peer(deterministic_on_gpu=deterministic_on_gpu),
    ):
        raise KeyError
    assert torch.state == before


def test_there_is_no_peer_without_pytorch(monkeypatch):
    monkeypatch.setattr(torch_peer.importlib.util, "find_spec", lambda _: None)
    with torch_peer.torch_peer() as peer:
        assert peer is None


def test_a_side_waits_for_the_device(torch, monkeypatch):
    events = []
    monkeypatch.setattr(torch.cpu, "synchronize", lambda: events.append("waited"))
    with torch_peer.torch_peer() as peer:
        peer.side(lambda: events.append("ran"))()
    assert events == ["ran", "waited"]

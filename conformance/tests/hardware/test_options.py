"""The options of a run in rounds: a GPU's run has rounds, a CPU's only on request."""

import argparse

from conformance.hardware import options


def parse(*words, device):
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int)
    options.add_options(parser)
    return options.round_options(parser.parse_args(words), device)


def test_a_gpu_has_rounds_and_a_cpu_has_them_on_request(monkeypatch):
    monkeypatch.setattr(options, "_cores", lambda: 12)
    assert parse(device="cuda") == options.RoundOptions(6, 4, 8.0, 100)
    assert parse("--repeats", "7", "--minutes", "2.5", device="cuda").repeats == 7
    assert parse("--processes", "0", device="cuda") is None
    assert parse(device="cpu") is None
    assert parse("--rounds", "2", device="cpu") == options.RoundOptions(6, 2, None, None)
    monkeypatch.setattr(options, "_cores", lambda: 1)
    assert parse("--rounds", "2", device="cpu").processes == 1

"""The text of ``python -m spec show``."""

import pytest

import spec
from spec import show
from spec.__main__ import main

RULES = spec.load()


def shown(capsys, *words):
    assert main(["show", *words]) == 0
    return capsys.readouterr().out


def test_each_condition_has_its_effect_and_its_reasons(capsys):
    text = shown(capsys, "cumsum", "--device", "cuda", "--direction", "forward")
    row = RULES.row("R0059")
    assert text.startswith(f"With the mode on under {RULES.default_profile}:\n")
    assert "cumsum, forward on cuda\n  when the dtype is" in text
    assert ": raises [R0059]\n    Alert: cumsum_cuda_kernel\n" in text
    assert "PyTorch's code since 2.6: deterministic." in text
    assert row.sources[0].phrase in " ".join(text.split())
    assert "  otherwise: the same bits anyway [R0060]\n" in text
    assert "    Guarantee: run_to_run\n    Under portable: another path, of prim" in text
    assert "Listed by: complete, not by torch-2.12" in text
    text = shown(capsys, "sort", "--device", "cuda")
    assert "    Order: stable_sort\n    Guarantee: portable\n" in text
    assert "    Under portable: the same path\n" in text
    assert "\nThe order stable_sort\n  Elements are sorted by value." in text


def test_a_profile_can_be_named(capsys):
    text = shown(capsys, "cumsum", "--device", "cuda", "--profile", "complete")
    assert "cumsum, forward on cuda, backward on cuda\n  always: deterministic [R0060]\n" in text
    assert "raises" not in text


def test_the_name_in_pytorch_is_taken_too(capsys):
    assert shown(capsys, "torch.nn.AvgPool3d") == shown(capsys, "nn.functional.avg_pool3d")


def test_a_call_that_no_row_is_about(capsys):
    text = shown(capsys, "gather", "--direction", "forward")
    assert "gather, forward on cpu and cuda and tpu\n  always: the same bits anyway\n" in text


def test_a_primitive_of_jax_has_its_path_on_each_device(capsys):
    text = shown(capsys, "scatter-add")
    assert "scatter-add, on cpu\n  always: the same bits anyway [R0515]\n" in text
    assert "\n  otherwise: deterministic [R0400]\n" in text
    assert 'guarantee="portable"\n  Computed by a rule. It is the exact sum, rounded once.' in text
    assert "\nThe order source\n" in text
    assert (
        shown(capsys, "lax.scatter_add")
        .partition("\n")[2]
        .replace("lax.scatter_add", "scatter-add")
        == text.partition("\n")[2]
    )
    assert shown(capsys, "dce_sink").startswith("dce_sink, with guarantee")
    assert "`psum_start`, `psum_invariant_start`, `psum_done`: Refused" in " ".join(
        shown(capsys, "lax.psum").split()
    )


def test_every_op_can_be_shown():
    for op in sorted({row.op for row in RULES.select(active=True)}):
        lines = show.text(op, RULES, profile="torch-1.10").splitlines()
        assert lines[2].startswith(op)
        assert all(len(line) <= 100 or " " not in line.strip() for line in lines)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["cumsm"], "no row is about the op 'cumsm'; close to it: cumsum"),
        (["cumsum", "--device", "npu"], "no device 'npu'; there are cpu, cuda, tpu"),
        (["cumsum", "--profile", "torch-9"], "no profile 'torch-9'; there are torch-1.10,"),
    ],
)
def test_an_unknown_name_is_an_error_in_words(words, message, capsys):
    assert main(["show", *words]) == 1
    assert message in capsys.readouterr().err

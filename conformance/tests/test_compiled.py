"""What is read from compiled programs, on samples of their text; nothing here compiles one."""

import argparse
import importlib.util
import inspect
import pkgutil
import tempfile
import types

import pytest

import impl._kernels
from conformance import compiled
from conformance.compiled import command, hlo, kernels, known, programs, ptx, records
from conformance.compiled.compiler import Code
from conformance.compiled.programs import Made, Tried
from conformance.compiled.ptx import Resources
from conformance.reporting import report

# Cut from what jaxlib 0.11.2 made of `x.at[i].add(s)` and of a sort, for an H200.
HLO = """\
%region_0.2 (a.1: f32[], b.1: f32[]) -> f32[] {{
  %a.1 = f32[] parameter(0), metadata={{op_name="scatter-add"}}
  %b.1 = f32[] parameter(1), metadata={{op_name="scatter-add"}}
  ROOT %out.1 = {root}
}}

%fused_scatter (param_0: {type}[8,5], param_1: s32[9,1]) -> {type}[8,5] {{
  %param_0 = {type}[8,5]{{1,0}} parameter(0)
  ROOT %scatter.1 = {type}[8,5]{{1,0}} scatter(%param_0, %param_1, %param_2), \
update_window_dims={{1,2}}, inserted_window_dims={{}}, index_vector_dim=1, {unique}\
to_apply=%region_0.2, metadata={{op_name="jit(f)/scatter-add"}}
}}

ENTRY %main.4 (x.1: {type}[8,5], i.1: s32[100]) -> {type}[8,5] {{
  ROOT %input_scatter_fusion = {type}[8,5]{{1,0}} fusion(%x.1, %i.1), kind=kInput, \
calls=%fused_scatter
}}
"""
ADD, SECOND = "f32[] add(%a.1, %b.1)", "f32[] parameter(1)"
MAXIMUM = "f32[] maximum(%a.1, %b.1)"


def scatter(root, type="f32", unique=""):
    return HLO.format(root=root, type=type, unique=unique)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (scatter(ADD), ["scatter to f32[8,5] (by add, indices may repeat)"]),
        (scatter(ADD, unique="unique_indices=true, "), []),
        (scatter(ADD, unique="indices_are_sorted=true, "), [...]),
        (scatter(ADD, type="s32"), []),
        (scatter(ADD, type="c64"), [...]),
        (scatter(SECOND, type="s32"), ["scatter to s32[8,5] (by assignment, indices may repeat)"]),
        (scatter(MAXIMUM), []),
        (scatter("f32[] multiply(%a.1, %b.1)", type="bf16"), [...]),
        (scatter("f32[] subtract(%a.1, %b.1)", type="s32"), [...]),
        # A scatter of several operands has a tuple for a result.
        (
            scatter(ADD).replace("= f32[8,5]{1,0} scatter", "= (f32[8]{0}, s32[8]{0}) scatter"),
            ["scatter to (f32[8], s32[8]) (by add, indices may repeat)"],
        ),
        (
            "  %s = f32[9]{0} select-and-scatter(%x, %y, %z), select=%ge, scatter=%add",
            ["select-and-scatter to f32[9]"],
        ),
        ("  %s = s32[9]{0} select-and-scatter(%x, %y, %z), select=%ge, scatter=%add", []),
        ('  %c = f32[9]{0} add(%x, %y), metadata={op_name="jit(f)/scatter-add"}', []),
    ],
)
def test_scatters_that_race(text, found):
    got = hlo.races(text)
    assert (len(got) == 1) if found == [...] else (got == found)


def test_calls_of_libraries():
    targets = [
        "__gpu$xla.gpu.triton",
        "__cublas$gemm",
        "__cudnn$convBackwardInput",
        "__cublas$gemm",
        "__cub$DeviceRadixSort",
    ]
    text = "\n".join(
        f"  %c.{n} = (f32[4]{{0}}, s8[0]{{0}}) custom-call(%x, %y), "
        f'custom_call_target="{target}", operand_layout_constraints={{f32[4]{{0}}}}'
        for n, target in enumerate(targets)
    )
    assert hlo.library_calls(text) == ["__cublas$gemm", "__cudnn$convBackwardInput"]


PTX = """\
.version 9.0
.target sm_90a
.address_size 64

	// .globl	scatter_add_atomic
.visible .entry scatter_add_atomic(
	.param .u64 .ptr .global .align 1 scatter_add_atomic_param_0
)
.reqntid 128
{{
	ld.shared.b32 	%r1, [%rd1];
	st.shared.v2.b32 	[%rd5+2], {{%r6, %r7}};
	redux.sync.add.s32 	%r8, %r7, 0xffffffff;
	{instruction}
	ret;
}}
"""


@pytest.mark.parametrize(
    ("instruction", "found"),
    [
        ("@%p2 atom.global.gpu.acq_rel.add.f32 %r3, [ %rd4 + 0 ], %r5;", True),
        ("atom.relaxed.sys.global.add.f32 	%r9, [%rd11], %r8;", True),
        ("atom.shared.add.f64 	%rd1, [%rd2], %rd3;", True),
        ("@%p1 red.global.add.noftz.bf16x2 [%rd1], %r1;", True),
        ("red.relaxed.gpu.global.v4.f32.add [%rd1], {%r1, %r2, %r3, %r4};", True),
        ("atom.global.cas.b32 	%r1, [%rd1], %r2, %r3;", True),
        ("atom.acq_rel.gpu.global.exch.b32 	%r1, [%rd1], %r2;", True),
        ("red.async.relaxed.cluster.shared::cluster.add.u32 	[%rd1], %r1;", False),
        ("red.relaxed.cluster.shared::cluster.add.f32 	[%rd1], %r1;", True),
        ("red.global.add.s32 	[%rd1], %r1;", False),
        ("atom.global.add.u64 	%rd4, [%rd1], %rd2;", False),
        ("atom.global.max.f32 	%r1, [%rd1], %r2;", False),
        ("ld.global.b32 	%r1, [%rd1];", False),
    ],
)
def test_atomics_that_race(instruction, found):
    got = ptx.racing_atomics(PTX.format(instruction=instruction))
    assert got == ([word for word in instruction.split() if "." in word][:1] if found else [])


def test_the_kernels_of_a_ptx_file():
    text = PTX.format(instruction="") + ".entry second_1(\n)\n{\n	ret;\n}\n"
    found = ptx.entries(text)
    assert list(found) == ["scatter_add_atomic", "second_1"]
    assert "second_1" not in found["scatter_add_atomic"]
    assert ptx.entries(".version 9.0\n.target sm_80\n.global .align 4 .b8 constants[4];") == {}


SAID = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'fold' for 'sm_90a'
ptxas info    : Function properties for fold
    40 bytes stack frame, 36 bytes spill stores, 44 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers
"""


def test_what_the_assembler_said():
    assert ptx.read_resources(SAID) == Resources(registers=255, spilled=36)
    with pytest.raises(ValueError, match="neither registers nor spills"):
        ptx.read_resources("ptxas fatal")


TRITON = (
    "  %0 = stablehlo.custom_call @__gpu$xla.gpu.triton(%x) "
    '{{ir = "{ir}" name = "{name}"}} : (tensor<7xf32>) -> tensor<7xf32>'
)


def code(name="scatter_add_atomic", instruction="", entry=None, ir="atomic_rmw", optimised=""):
    text = PTX.format(instruction=instruction)
    return Code(TRITON.format(name=name, ir=ir), optimised, {entry or name: text})


ATOMIC = "atom.global.gpu.acq_rel.add.f32 %r3, [ %rd4 + 0 ], %r5;"


def test_what_races_in_a_program():
    assert list(programs.races(code(instruction=ATOMIC, optimised=scatter(ADD)))) == [
        "scatter to f32[8,5] (by add, indices may repeat)",
        "atom.global.gpu.acq_rel.add.f32 in the kernel scatter_add_atomic",
    ]
    assert list(programs.races(code(name="fold", ir=""))) == []
    (found,) = programs.races(code(name="select_atomic_any", ir=""))
    assert "any may stay" in found


def test_what_a_program_lost():
    assert list(programs.lost(code(instruction=ATOMIC))) == []
    assert list(programs.lost(code(instruction=ATOMIC, entry="scatter_add_atomic_1"))) == []
    assert list(programs.lost(code())) == ["the atomics of the kernel scatter_add_atomic"]
    lost = list(programs.lost(code(instruction=ATOMIC, entry="scatter_add_atomic_else")))
    assert lost == ["the code of the kernel scatter_add_atomic"]


def cell(behaviour="deterministic", guarantee="portable"):
    row = types.SimpleNamespace(guarantee=guarantee)
    return types.SimpleNamespace(behaviour=behaviour, row=row)


@pytest.mark.parametrize(
    ("cell", "made", "count"),
    [
        (cell(), Made(), 0),
        (cell(), Made(races=("an atomic",)), 1),
        (cell("raise"), Made(races=("an atomic",)), 0),
        (cell("raise"), Made(lost=("its atomics",)), 1),
        (cell("raise"), Made(error="XlaRuntimeError: no"), 1),
        (cell(), Made(calls=("__cublas$gemm",)), 1),
        (cell(guarantee="run_to_run"), Made(calls=("__cublas$gemm",)), 0),
        (cell(guarantee="run_to_run"), Made(calls=("__cudnn$convBackwardFilter",)), 1),
    ],
)
def test_what_a_row_holds_against_a_program(cell, made, count):
    assert len(list(programs.faults(cell, made))) == count


def tried(*faults, profile="complete", target="h200", seconds=1.0, behaviour="deterministic"):
    about = {
        "row": "R0001",
        "op": "index_add",
        "direction": "forward",
        "device": "cuda",
        "profile": profile,
        "sample": "many",
        "behaviour": behaviour,
    }
    made = Made(kernels={"fold": Resources(40, 0)}, seconds=seconds)
    return Tried(f"R0001-index_add-{profile}", target, about, made, faults)


def test_a_failure_says_what_to_run_and_what_to_edit():
    (failure,) = command._failures([tried("it races"), tried("it races", profile="torch-2.12")])
    lines = failure.splitlines()
    assert lines[0] == "R0001-index_add-complete for h200, and under 1 more profiles: it races"
    again = "python -m conformance compile --target h200 -k R0001-index_add-complete"
    assert lines[1] == f"again: {again}"
    assert lines[2].startswith("edit:  impl/ops/index_add.py:")
    assert lines[3].startswith("       spec/rows/index_add.toml:")


def test_records_are_one_for_each_row_behaviour_and_target(tmp_path):
    found = [tried(), tried(profile="torch-2.12"), tried(target="a100"), tried(behaviour="raise")]
    made = list(records.records(found, ()))
    assert [(r.lowering, r.profile, r.check, r.evidence) for r in made] == [
        ("h200", None, "compiled", "compiled"),
        ("a100", "complete", "compiled", "compiled"),
        ("h200", "complete", "compiled, warn only", None),
    ]
    assert made[0].detail == "2 programs, 2 kernels, at most 40 registers, no spills"
    assert len({record.key for record in made}) == len(made)
    report.write(tmp_path / "r.json", {}, made)
    assert report.read(tmp_path / "r.json").strongest() == {("R0001", "cuda"): "compiled"}


def test_a_record_fails_or_is_skipped_with_its_reason():
    entries = known.read([{"ops": ["index_add"], "says": "no config", "reason": "No device."}])
    (failed,) = records.records([tried("it races: x"), tried("no config")], entries)
    assert (failed.outcome, failed.detail) == (
        "failed",
        "R0001-index_add-complete: it races: x; No device.",
    )
    (skipped,) = records.records([tried(), tried("no config")], entries)
    assert (skipped.outcome, skipped.detail) == ("skipped", "No device.")


def test_known_faults_are_of_an_op_a_target_and_words():
    fields = {"ops": ["index_add"], "says": "no config", "reason": "No device."}
    (entry,) = known.read([{**fields, "targets": ["h200"]}])
    assert entry.is_of(tried(), "it has no config here")
    assert not entry.is_of(tried(), "it races")
    assert not entry.is_of(tried(target="a100"), "it has no config here")
    (other,) = known.read([{**fields, "ops": ["scatter_add"]}])
    assert not other.is_of(tried(), "it has no config here")
    for wrong in (
        {"ops": ["index_add"], "says": "x"},
        {**fields, "more": 1},
        {**fields, "targets": ["h300"]},
        {**fields, "ops": "index_add"},
    ):
        with pytest.raises(ValueError, match=r"known\.toml"):
            known.read([wrong])
    known.load()


def test_every_kernel_has_cases():
    modules = [m.name for m in pkgutil.iter_modules(impl._kernels.__path__) if m.name != "launch"]
    wanted = {
        f"{module}.{name}"
        for module in modules
        for name, function in vars(__import__(f"impl._kernels.{module}", fromlist=["_"])).items()
        if inspect.isfunction(function)
        and function.__module__ == f"impl._kernels.{module}"
        and not name.startswith("_")
        and "launch" in inspect.signature(function).parameters
    }
    cases = list(kernels.cases())
    assert {case.kernel for case in cases} == wanted
    assert len({str(case) for case in cases}) == len(cases)


def test_the_command_says_what_it_cannot_do(tmp_path, capsys):
    parser = argparse.ArgumentParser()
    compiled.add_options(parser)
    assert compiled.run(parser.parse_args(["-n", "0"])) == 2
    assert "at least one process" in capsys.readouterr().err
    assert compiled.run(parser.parse_args(["--report", str(tmp_path / "no" / "r.json")])) == 2
    assert "there is no folder" in capsys.readouterr().err
    assert compiled.run(parser.parse_args(["-k", "no such row"])) == 2
    assert "nothing has no such row in its name" in capsys.readouterr().err


@pytest.mark.skipif(
    importlib.util.find_spec("jax_plugins") is not None, reason="XLA for CUDA is here"
)
def test_the_command_says_what_it_needs(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    parser = argparse.ArgumentParser()
    compiled.add_options(parser)
    assert compiled.run(parser.parse_args(["-n", "1", "-k", "R0001"])) == 2
    assert "pip install jax==0.11.2 jax-cuda13-plugin" in capsys.readouterr().err
    assert list(tmp_path.glob("samebits-*")) == []  # what processes wrote is gone

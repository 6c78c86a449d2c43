"""Compiled programs, and the text of HLO, are read as equations.

Tests: impl._reading.hlo, impl._reading.tracing.
"""

import functools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import impl
from impl._jax import releases
from impl._mode import modes
from impl._reading import compiled, hlo, tracing
from impl.programs._auditing.judge import Judge

X, INDEX, UPDATES = jnp.ones(5), jnp.array([1, 1, 3]), jnp.arange(3.0)


def pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (3,), (1,), "SAME").sum()  # varies


def program(x, index, updates, matrix, counts):
    return [
        x.at[index].add(updates),  # varies
        x.at[index].set(updates),  # varies
        x.at[index].multiply(updates),  # varies
        x.at[index].add(updates, unique_indices=True),
        x.at[index[0]].add(2.0),
        x.at[index].max(updates),
        x.at[index].apply(jnp.sin),
        counts.at[index].add(7),
        jax.grad(pool)(x * 2),
        jnp.linalg.cholesky(matrix),  # unknown
        matrix @ matrix,  # unknown
        jax.pure_callback(np.sin, x, x),  # unknown
        jnp.sort(x),
        lax.top_k(x, 2)[0],
    ]


ARGS = X, INDEX, UPDATES, jnp.eye(3), jnp.zeros(5, int)


def marked(verdict):
    """The lines of this file that end with a verdict."""
    rows = Path(__file__).read_text("utf-8").splitlines()
    return {n for n, row in enumerate(rows, 1) if row.endswith(f"# {verdict}")}


def judged(text, device="cuda", timed_kernels=True):
    judge = Judge(device, modes.current(), timed_kernels)
    found, _ = compiled.instructions(text, timed_kernels=timed_kernels)
    return [f for each in found if (f := judge.of_instruction(each)) is not None]


@pytest.fixture(scope="module")
def text():
    # Without emitters, which newer releases of XLA always have, a scatter is a loop on a CPU.
    old = releases.CPU_EMITTERS_ARE_OPTIONAL
    emitters = {"xla_cpu_use_fusion_emitters": True} if old else None
    # Programs of other tests have no lines of source, and JAX keeps what it has lowered.
    fresh = jax.jit(functools.partial(program))
    limit = jax.config.jax_traceback_in_locations_limit
    jax.config.update("jax_traceback_in_locations_limit", 10)
    try:
        return fresh.lower(*ARGS).compile(emitters).as_text()
    finally:
        jax.config.update("jax_traceback_in_locations_limit", limit)


@pytest.mark.parametrize("verdict", ["varies", "unknown"])
def test_the_instructions_that_can_vary_are_found_with_their_lines(text, verdict):
    found = [f for f in judged(text) if f.verdict == verdict]
    lines = {int(f.source.rpartition(":")[2]) for f in found}
    assert lines == marked(verdict)
    assert {f.source.partition(":")[0] for f in found} == {"impl/tests/reading/test_compiled.py"}
    assert all(f.row and f.remedy for f in found)


def test_without_timed_kernels_products_are_known(text):
    names = {f.primitive for f in judged(text, timed_kernels=False)}
    assert "lax.dot_general" not in names
    assert "lax.scatter_add" in names


def test_on_a_cpu_calls_of_unknown_code_are_left():
    report = impl.audit(program, device="cpu", level="compiled")(*ARGS)
    assert [(f.primitive, f.verdict) for f in report.findings] == [("pure_callback", "unknown")]
    assert report.level == "compiled"
    assert report.equations > 30
    # Jitted programs are compiled as they are.
    assert not impl.audit(impl.jit(program), device="cpu", level="compiled")(*ARGS).ok


def test_a_device_that_is_not_at_hand_is_refused():
    if jax.default_backend() != "cpu":
        pytest.skip("there is a GPU at hand")
    with pytest.raises(RuntimeError, match=r"which is 'cpu', not device='cuda'.*level='program'"):
        impl.audit(program, level="compiled")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": "compiled", "gpu": "h1"}, "argument 'gpu' got 'h1'; allowed: 'a100', "),
        (
            {"gpu": "h100"},
            "gpu='h100' needs device='cuda' and level='compiled', and got .*'program'",
        ),
        ({"gpu": "h100", "level": "compiled", "device": "cpu"}, "and got device='cpu' and level="),
    ],
)
def test_a_gpu_that_nothing_can_be_compiled_for_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        impl.audit(program, **options)


def test_an_absent_gpu_needs_the_plugins_for_cuda_or_is_compiled_for():
    def step(x, index, updates):
        return x.at[index].add(updates)

    try:
        tracing.mesh_of("h100")
    except Exception:  # noqa: BLE001  # The message is tested.
        with pytest.raises(RuntimeError, match=r"cannot compile for gpu='h100': .* Install JAX's"):
            impl.audit(step, level="compiled", gpu="h100")
        return
    audited = impl.audit(step, level="compiled", gpu="h100")
    verdicts = {f.primitive: f.verdict for f in audited(*ARGS[:3]).findings}
    assert verdicts == {"lax.scatter_add": "varies"}
    with impl.deterministic(profile="complete"):
        assert audited(*ARGS[:3]).ok


INSTRUCTION = """HloModule jit_f

FileNames
1 "/home/me/train.py"
2 "/usr/lib/python3/site-packages/flax/linen/linear.py"

FunctionNames
1 "step"
2 "Dense.__call__"

FileLocations
1 {{file_name_id=1 function_name_id=1 line=7 end_line=7 column=2 end_column=39}}
2 {{file_name_id=2 function_name_id=2 line=287 end_line=4 column=6 end_column=10}}

StackFrames
1 {{file_location_id=1 parent_frame_id=1}}
2 {{file_location_id=2 parent_frame_id=2}}

%add (a: f32[], b: f32[]) -> f32[] {{
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}}

ENTRY %main (x: f32[8]) -> f32[8] {{
  %x = f32[8]{{0}} parameter(0)
  ROOT %y = {instruction}, metadata={{op_name="jit(f)/{name}" stack_frame_id=2}}
}}
"""


def call(target, result="f32[8]{0}"):
    return f'{result} custom-call(%x), custom_call_target="{target}"'


POOL = "f32[8]{{0}} select-and-scatter(%x, %x, %x), window={{size={} stride=2}}, select=%add"


@pytest.mark.parametrize(
    ("instruction", "primitive", "verdict"),
    [
        ("f32[8]{0} all-reduce(%x), to_apply=%add", "lax.psum", "unknown"),
        ("s32[8]{0} all-reduce(%x), to_apply=%add", None, None),
        ("f32[8]{0} rng(%x, %x), distribution=rng_uniform", "lax.rng_uniform", "varies"),
        (call("mine"), "mine", "unknown"),
        (call("Sharding"), None, None),
        (call("__cublas$lt$matmul", "(f32[8]{0}, s8[9]{0})"), "lax.dot_general", "unknown"),
        (call("__cudnn$fmhaSoftmaxBackward"), "cudnn.attention_backward", "varies"),
        (POOL.format(3), "lax.select_and_scatter_add", "varies"),
        (POOL.format(2), None, None),
    ],
)
def test_instructions_of_a_gpu(instruction, primitive, verdict):
    found = judged(INSTRUCTION.format(instruction=instruction, name="g"))
    assert [(f.primitive, f.verdict) for f in found] == ([(primitive, verdict)] if verdict else [])
    for finding in found:
        assert finding.source == "/home/me/train.py:7"
        assert finding.library == "flax/linen/linear.py:287 (Dense.__call__)"


def test_a_call_of_a_library_is_known_by_its_equation():
    text = INSTRUCTION.format(instruction=call("cusolver_potrf_ffi"), name="jit(cholesky)/cholesky")
    (finding,) = judged(text)
    assert (finding.primitive, finding.verdict) == ("lax.linalg.cholesky", "unknown")


def test_an_instruction_has_its_operands_and_its_attributes():
    fusion = "f32[8]{0} fusion(%x), kind=kLoop, calls=%add"
    text = INSTRUCTION.format(instruction=fusion, name="neg")
    program = hlo.parse(text)
    y = program.computations["main"]["y"]
    assert (program.entry, y.opcode, y.operands) == ("main", "fusion", ("x",))
    assert (y.attribute("calls"), y.attribute("body")) == ("add", "")
    assert (y.scope, y.target, y.parameter) == ("jit(f)/neg", "", None)
    assert [each.parameter for each in program.computations["add"].values()] == [0, 1, None]
    assert (program.root("add").name, program.root("absent")) == ("sum", None)
    assert [each.name for each in program] == ["a", "b", "sum", "x", "y"]
    library = ("/usr/lib/python3/site-packages/flax/linen/linear.py", 287, "Dense.__call__")
    user = ("/home/me/train.py", 7, "step")
    assert hlo.frames(text) == {1: (user,), 2: (library, user)}, "the innermost first"


def test_the_bytes_of_a_result_are_those_of_all_its_arrays():
    shapes = "(f32[2,3]{1,0}, (pred[5], bf16[]), s4[8])"
    result = hlo.parse(INSTRUCTION.format(instruction=call("t", shapes), name="g")).root("main")
    assert result.target == "t"
    assert list(map(str, result.shapes)) == ["f32[2,3]", "pred[5]", "bf16[]", "s4[8]"]
    assert result.bytes == 24 + 5 + 2 + 8

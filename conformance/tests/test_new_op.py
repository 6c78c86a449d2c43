"""A small op, added to a copy of the checkout by the steps that ``python -m spec new`` prints."""

import re
import shlex
import shutil

import pytest

import spec
from impl.tests.support import processes

OP = "cumulative_trapezoid"
#: The blanks of each file, and the text that fills each of them.
FILLED = {
    f"spec/rows/{OP}.toml": {
        'guarantee = "portable"\norder = "FILL_IN"\n': 'guarantee = "run_to_run"\n',
    },
    f"impl/ops/_{OP}.py": {
        "FILL IN.": "running areas under a line.",
        "FILL IN: one sentence that begins with a verb.": "Adds trapezoids along a dimension.",
        "FILL IN: its shape and dtypes.": "Any shape of floats.",
        "FILL IN: the shape and dtype of the result.": "One element less along the dimension.",
        "RuntimeError: FILL IN: the bad arguments.": "IndexError: ``dim`` is out of range.",
        "    # FILL IN: state each fact that a row asks for.\n": "",
        "    values = alert(input, decision)\n": "    values = alert(y, decision)\n",
        "    # FILL IN: compose primitives of JAX.\n": """\
    wide, last = seal(convert(values, accumulator(values.dtype))), values.shape[dim]
    left = jax.lax.slice_in_dim(wide, 0, last - 1, axis=dim)
    right = jax.lax.slice_in_dim(wide, 1, last, axis=dim)
""",
        'raise NotImplementedError(f"{_NAME}(): FILL IN, for an input of shape {values.shape}")': (
            "return convert(jax.lax.cumsum(product(left + right, 0.5), dim), values.dtype)"
        ),
        "import Array\n": """\
import Array
from impl._core.numerics import accumulator, convert, product, seal
""",
        "(input: Array)": "(y: Array, *, dim: int = -1)",
        "        input: Any shape of floats.\n": """\
        y: Any shape of floats.
        dim: The dimension.
""",
        'input = arguments.array(_NAME, "input", input)\n': """\
y = arguments.array(_NAME, "y", y)
    dim = arguments.dimension(dim, y.ndim, _NAME)
""",
        "arguments.facts(input)": "arguments.facts(y)",
    },
    f"conformance/cases/{OP}.py": {
        "    # FILL IN: a row with a condition needs samples that meet it, and one that does not."
        "\n": "",
        "    # FILL IN: forms of other shapes, dtypes and options, and calls that the op refuses. "
        "The tests\n    # of all ops transform forms with a name.\n": "",
        'raise NotImplementedError("FILL IN: oracles.nearest, if the op adds")': (
            "return oracles.nearest_running((x[1:] + x[:-1]) * np.float32(0.5))"
        ),
        "Sample, form\n": "Sample, form\nfrom spec import oracles\n",
        f"ns.{OP}(x)": f"ns.{OP}(x, dim=0)",
    },
}
pytestmark = pytest.mark.once


def run(checkout, *command):
    process = processes.run(*command, folder=checkout)
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


def fill_in(checkout):
    for name, blanks in FILLED.items():
        path = checkout / name
        text = path.read_text(encoding="utf-8")
        for blank, filling in blanks.items():
            assert blank in text, f"{name} has no {blank!r}"
            text = text.replace(blank, filling)
        assert not re.search("FILL.IN", text), text
        path.write_text(text, encoding="utf-8")


@pytest.fixture
def checkout(tmp_path):
    """A copy of the checkout."""
    for package in ("spec", "impl", "conformance"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(processes.ROOT / package, tmp_path / package, ignore=ignored)
    shutil.copy(processes.ROOT / "pyproject.toml", tmp_path)
    return tmp_path


#: A test of the decisions of the calls, which runs with the tests of all ops.
DECIDES = f"""
import jax.numpy as jnp
import impl
from impl._mode.decide import decide

def test_the_row_decides_the_calls_of_the_op():
    x = jnp.arange(12.0).reshape(3, 4)
    with impl.deterministic(profile="complete"), impl.testing.questions() as asked:
        assert impl.{OP}(x).shape == (3, 3)
        (question,) = asked
        decision = decide(question.op, question.direction, **question.facts)
    for platform in ("cpu", "cuda", "rocm", "tpu"):
        assert decision.on(platform).row == "ROW"
"""


def test_the_steps_make_an_op_whose_row_tests_and_suite_are_right(checkout):
    steps = run(checkout, "-m", "spec", "new", OP)
    fill_in(checkout)
    commands = [shlex.split(command) for command in re.findall(r"Then run: python (.+)", steps)]
    version, check, every_op, suite = commands
    assert version == ["-m", "spec", "version", "--write"]
    assert check == ["-m", "spec", "check"]
    assert every_op == ["-m", "pytest", "conformance/tests/every_op", "-k", OP]
    assert suite[:3] == ["-m", "conformance", "run"]
    assert run(checkout, *version).startswith("Added: R")
    assert run(checkout, *check) == f"{len(spec.load().rows) + 1} rows, no problem\n"
    (row,) = [word for word in suite if word.startswith("R")]
    decides = checkout / f"impl/tests/ops/test_{OP}.py"
    decides.write_text(DECIDES.replace("ROW", row), encoding="utf-8")
    out = run(checkout, *every_op, str(decides), "-q", "-p", "no:cacheprovider")
    assert re.search(r"\d+ passed", out)
    assert "failed" not in out
    out = run(checkout, *suite)
    assert re.search(r"\d+ passed", out)
    assert "failed" not in out

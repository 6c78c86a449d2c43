"""The skeleton of a new op, in a checkout that has only the files that it changes."""

import tomllib

import pytest

import spec
from spec.__main__ import main
from spec.new import NewOp, skeleton
from spec.tests._edits import reports, reports_of_rows

#: The next free ids of the small spec.
ID, NEXT = "R0510", "R0511"
INIT = """\
from impl.a import jit as jit
from impl.ops._alpha import alpha as alpha
from impl.ops._long import (
    long as long,
)
from impl.random import seed as seed
"""


@pytest.fixture
def checkout(root):
    """The folder of a checkout whose spec is small."""
    repository = root.parent
    files = {
        "pyproject.toml": "",
        "impl/__init__.py": INIT,
        "impl/nn/functional/__init__.py": "from impl.nn.functional._beta import beta as beta\n",
        "conformance/cases/tabled.py": "",
    }
    for name, text in files.items():
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text(text, encoding="utf-8")
    return repository


def contents(folder):
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def rows(checkout, family):
    text = (checkout / f"spec/rows/{family}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)["row"]


def new(checkout, op, **options):
    made = skeleton(checkout, NewOp(op, **options))
    made.write(checkout)
    return made


def test_a_new_op_has_a_row_and_an_id(checkout):
    new(checkout, "gamma", order="last_write")
    assert rows(checkout, "gamma") == [
        {
            "id": ID,
            "op": "gamma",
            "device": "any",
            "guarantee": "portable",
            "order": "last_write",
            "behaviour": {"complete": "deterministic"},
        }
    ]
    issued = tomllib.loads((checkout / "spec/ids.toml").read_text(encoding="utf-8"))["issued"]
    assert issued[ID] == "gamma"
    assert reports_of_rows(checkout / "spec") == []
    new(checkout, "delta")  # Without an order, the check reports the blank.
    assert f"delta.toml: {NEXT}: order 'FILL_IN' does not" in reports(checkout / "spec")[0]


def test_a_device_that_races_has_a_row_of_its_own(checkout):
    new(checkout, "gamma", device="cuda", direction="backward", order="last_write")
    cuda, cpu = rows(checkout, "gamma")
    assert cuda.pop("mode_off") == "not_guaranteed"
    assert (cuda.pop("id"), cuda.pop("device")) == (ID, "cuda")
    assert (cpu.pop("id"), cpu.pop("device")) == (NEXT, "cpu")
    assert cuda == cpu
    assert cuda["direction"] == "backward"
    assert reports_of_rows(checkout / "spec") == []
    # A device that does not race has no race with the mode off.
    new(checkout, "delta", device="cpu", order="last_write")
    assert [row["device"] for row in rows(checkout, "delta")] == ["cpu", "cuda"]
    assert not [row for row in rows(checkout, "delta") if "mode_off" in row]


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize(
    ("op", "module"),
    [("gamma", "impl/ops/_gamma.py"), ("nn.functional.gamma", "impl/nn/functional/_gamma.py")],
)
def test_the_files_of_an_op_are_python_and_name_it(checkout, op, module, direction):
    new(checkout, op, direction=direction, torch="torch.Tensor.gamma_")
    for file in (module, "conformance/cases/gamma.py"):
        text = (checkout / file).read_text(encoding="utf-8")
        compile(text, file, "exec")
        assert op in text
        assert "FILL IN" in text
        assert "$" not in text
    assert "def gamma(input" in (checkout / module).read_text(encoding="utf-8")
    assert '@op("torch.Tensor.gamma_")' in (checkout / module).read_text(encoding="utf-8")
    assert rows(checkout, "gamma")[0]["torch"] == "torch.Tensor.gamma_"


@pytest.mark.parametrize("name", ["aaa", "gamma", "zeta"])
def test_the_export_is_in_alphabetical_order(checkout, name):
    new(checkout, name)
    lines = (checkout / "impl/__init__.py").read_text(encoding="utf-8").splitlines()
    place = {"aaa": 1, "gamma": 2, "zeta": 5}[name]
    assert lines.pop(place) == f"from impl.ops._{name} import {name} as {name}"
    assert "\n".join(lines) + "\n" == INIT


def test_a_long_export_is_broken_as_the_formatter_breaks_it(checkout):
    name = "gamma_" * 6 + "gamma"
    new(checkout, f"nn.functional.{name}")
    text = (checkout / "impl/nn/functional/__init__.py").read_text(encoding="utf-8")
    assert text.endswith(f"from impl.nn.functional._{name} import (\n    {name} as {name},\n)\n")


def test_an_op_may_join_a_family(checkout):
    before = rows(checkout, "put")
    made = new(checkout, "put_all", family="put", order="last_write")
    assert rows(checkout, "put")[:-1] == before
    assert rows(checkout, "put")[-1]["op"] == "put_all"
    assert "conformance/cases/put_all.py" in made.texts
    assert reports_of_rows(checkout / "spec") == []


@pytest.mark.parametrize(
    ("op", "options", "message"),
    [
        ("index_add", {}, r"'index_add' exists: its rows are R0001, R0002 in spec/rows/index_add"),
        ("linalg.norm", {}, "the namespace 'linalg'; skeletons are written for"),
        ("Gamma", {}, "'Gamma' is not the name of a function"),
        ("lambda", {}, "'lambda' is not the name of a function"),
        ("jit", {}, "impl/__init__.py has the name 'jit' already"),
        ("tabled", {}, "conformance/cases/tabled.py exists"),
        ("random", {}, "random.toml has the rows of other ops; pass --family random"),
        ("gamma", {"device": "gpu"}, r"--device got 'gpu'; allowed are \['any', 'cpu', 'cuda'\]"),
        ("gamma", {"device": "mps"}, "--device got 'mps'"),
        ("gamma", {"order": "plane"}, r"--order got 'plane'; allowed are \['source'"),
        ("gamma", {"torch": "gamma"}, "--torch got 'gamma'"),
        ("gamma", {"family": "../a"}, "--family got '../a'"),
    ],
)
def test_a_refusal_says_why_and_changes_nothing(checkout, op, options, message):
    before = contents(checkout)
    with pytest.raises(spec.SpecError, match=message):
        new(checkout, op, **options)
    assert contents(checkout) == before


def test_a_file_without_the_line_to_extend_is_named_and_an_installed_spec_has_no_checkout(checkout):
    (checkout / "impl/__init__.py").write_text("", encoding="utf-8")
    before = contents(checkout)
    with pytest.raises(spec.SpecError, match=r"has no import from impl\.ops"):
        new(checkout, "gamma")
    assert contents(checkout) == before
    (checkout / "pyproject.toml").unlink()
    with pytest.raises(spec.SpecError, match=r"has no pyproject\.toml; clone the repository"):
        new(checkout, "gamma")


def test_the_command_writes_and_prints_the_steps(checkout, capsys):
    root = str(checkout / "spec")
    command = ["--root", root, "new", "gamma", "--device", "cuda", "--order", "last_write"]
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "wrote impl/ops/_gamma.py" in out
    steps = [line[:3] for line in out.splitlines() if line[:1].isdigit()]
    assert steps == ["1. ", "2. ", "3. ", "4. "]
    assert f'-k "{ID} or {NEXT}"' in out
    assert main(command) == 1
    assert "the op 'gamma' exists" in capsys.readouterr().err

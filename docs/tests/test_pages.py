"""The pages, the README and CONTRIBUTING against the files, sessions and commands that they name.

A command of this project is parsed by the parser that its module has, and the quick ones run.
Commands that take minutes, or need a GPU, have tests elsewhere.
"""

import ast
import importlib.util
import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "decisions").glob("*.md")),
]
#: Folders that a build makes.
GENERATED = ("docs/_build/", "docs/_data/", "docs/ops/", "docs/primitives/", "docs/profiles/")
REPORTS = ROOT / "conformance" / "reports"
#: The commands that take less than a second: they run.
QUICK = ("spec show", "conformance show", "conformance differences", "impl flags")
_COMMAND = re.compile(r"\bpython -m ((?:spec|impl|conformance)\b[\w.]*)((?: [^\s`\"&|)]+)*)")


def paths(page: Path) -> list[str]:
    """Returns the paths that a page names. Capital letters mark a blank: ``impl/ops/OP.py``."""
    names = re.findall(r"`((?:spec|impl|conformance|docs)/[^`\s]*)`", page.read_text("utf-8"))
    return [n for n in names if not re.search("[A-Z]", n) and not n.startswith(GENERATED)]


def sessions() -> set[str]:
    """Returns the names of the sessions of nox."""
    tree = ast.parse((ROOT / "noxfile.py").read_text(encoding="utf-8"))
    return {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and any("nox.session" in ast.unparse(decorator) for decorator in node.decorator_list)
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_path_and_session_exists(page: Path) -> None:
    assert [path for path in paths(page) if not any(ROOT.glob(path.rstrip("/")))] == []
    assert set(re.findall(r"nox -s (\w+)", page.read_text(encoding="utf-8"))) <= sessions()


def test_contributing_explains_each_session() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `nox -s (\w+)` \|", text, re.MULTILINE)) == sessions()


def commands(page: Path) -> set[tuple[str, str]]:
    """Returns the modules and the arguments of the commands of a page, in blocks and sentences."""
    text = page.read_text(encoding="utf-8")
    quoted = [*re.findall(r"`([^`\n]+)`", text)]
    blocks = re.findall(r"^```(?:sh|console)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    lines = [*quoted, *(line for block in blocks for line in block.splitlines())]
    return {(match[1], match[2]) for line in lines for match in _COMMAND.finditer(line)}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes a folder with the files that the commands of the pages name the current one."""
    for name in ("train.py", "test_train.py", "docs/examples/unseeded.py", "step.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "gpu.json").symlink_to(REPORTS / "cpu.json")
    monkeypatch.chdir(tmp_path)


@pytest.mark.once
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_command_is_understood(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for module, text in commands(page):
        arguments = shlex.split(text)
        if "." in module:
            assert importlib.util.find_spec(module), module
            continue
        if not arguments or re.search(r"\b[A-Z]{2,}\b", text):  # A command in general.
            continue
        main = import_module(f"{module}.__main__")
        if len(arguments) == 1:  # The name of a command, whose arguments are left out.
            with pytest.raises(SystemExit) as end:
                main.main([*arguments, "--help"])
            assert end.value.code == 0
        elif f"{module} {arguments[0]}" in QUICK:
            assert main.main(arguments) == 0
            assert capsys.readouterr().out
        else:
            _, rest = main._parser().parse_known_args(arguments)  # its own parser
            assert not rest or arguments[0] == "run", (module, text)


def test_a_wrong_command_is_noticed(tmp_path: Path) -> None:
    (page := tmp_path / "page.md").write_text("```sh\npython -m spec shew cumsum\n```\n")
    assert commands(page) == {("spec", " shew cumsum")}
    with pytest.raises(SystemExit):
        import_module("spec.__main__").main(["shew", "cumsum"])

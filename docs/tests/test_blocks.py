"""The blocks of Python on the guides run, and print the text that the page shows after them."""

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

import impl

DOCS = Path(__file__).parents[1]
#: The pages whose blocks run in tests of their own, or in a process that imports no kernels.
OTHERS = ("data.md", "testing.md", "third-parties.md", "without-the-kernels.md")
#: The pages whose blocks run here.
GUIDES = sorted(
    page.name
    for page in DOCS.glob("*.md")
    if "\n```python\n" in page.read_text(encoding="utf-8") and page.name not in OTHERS
)
#: The file that the blocks of a page are in, if it is not the page.
FILES = {"reading-an-audit.md": "train.py"}
#: The characters of a line of code that a page shows without scrolling, at 1440 pixels.
WIDTH = 92
#: The names that the blocks of a page define.
Names = dict[str, Any]
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(page: Path) -> list[tuple[str, int, str]]:
    """Returns the language, the line and the text of each block of a page."""
    text = page.read_text(encoding="utf-8")
    return [
        (match[1], text.count("\n", 0, match.start(2)), match[2]) for match in _BLOCK.finditer(text)
    ]


def in_any_release(text: str) -> list[str]:
    """Returns the words of a text, without the line numbers of JAX's files."""
    return re.sub(r"(jax/_src/[\w/]+\.py):\d+", r"\1", text).split()


def the_table_has_the_answers(text: str, names: Names) -> None:
    """Compares the table of layers with the answers of the audit to the program of the page."""
    lines = re.findall(r"^\| (.*?) \| (.*?) \| (.*?) \|$", text, re.MULTILINE)[2:]
    shown = {
        re.split(r" \(|, | with ", layer)[0]: tuple(answers)
        for *answers, layers in lines
        for layer in layers.split("; ")
    }
    assert shown == names["answers"]


CHECKS = {"not-covered.md": (the_table_has_the_answers,)}


@pytest.mark.parametrize("name", GUIDES)
def test_the_blocks_run_and_print_what_the_page_shows(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XLA_FLAGS", raising=False)  # A flag can exclude kernels that are timed.
    monkeypatch.chdir(tmp_path)
    page, file = DOCS / name, FILES.get(name)
    names: Names = {}
    printed = ""
    ran = 0
    try:
        for language, line, text in blocks(page):
            if language == "text":
                assert in_any_release(printed) == in_any_release(text), f"{page.name}:{line + 1}"
            if language == "python":
                out = io.StringIO()
                with contextlib.redirect_stdout(out):
                    # Errors and reports name lines of the page.
                    code = text if file else "\n" * line + text
                    exec(compile(code, file or str(page), "exec"), names)
                printed = out.getvalue()
                ran += 1
    finally:
        impl.use_deterministic_algorithms(False)
        impl.programs.enable()
    assert ran
    for check in CHECKS.get(name, ()):
        check(page.read_text(encoding="utf-8"), names)


def test_the_lines_of_code_are_shown_whole() -> None:
    wide = [
        (page.name, line)
        for page in DOCS.glob("*.md")
        for language, _, text in blocks(page)
        for line in text.splitlines()
        if language in ("python", "javascript") and len(line) > WIDTH
    ]
    assert wide == []


def test_the_program_of_the_first_page_has_six_lines() -> None:
    programs = [text for language, _, text in blocks(DOCS / "index.md") if language == "python"]
    assert [sum(map(bool, text.splitlines())) for text in programs] == [6]


def run_tests_of(page: Path) -> Names:
    """Runs the program of a page and each of its tests, and returns the names that it defines."""
    names: Names = {}
    for language, _, text in blocks(page):
        if language == "python":
            exec(compile(text, "test_step.py", "exec"), names)
    for name in [name for name in names if name.startswith("test_")]:
        arguments = names[name].__code__.co_varnames[: names[name].__code__.co_argcount]
        names[name](*(getattr(impl.testing, argument) for argument in arguments))
    return names


def test_the_tests_of_the_page_of_the_plugin_pass() -> None:
    page = DOCS / "testing.md"
    names = run_tests_of(page)
    assert len([name for name in names if name.startswith("test_")]) == 4
    with pytest.raises(AssertionError) as failure:
        impl.testing.assert_deterministic(names["step"], names["jnp"].ones(4))
    assert "\n".join(str(failure.value).splitlines()[:2]) in page.read_text(encoding="utf-8")
    scope = impl.deterministic(guarantee="portable")
    with pytest.raises(AssertionError) as failure, scope:
        impl.testing.assert_invariant(names["attention"], names["x"], names["live"], time=1)
    # XLA's options change the last bits of the results, and so the distance.
    shown, words = (
        " ".join(re.sub(r"\d+ ulp", "ulp", text).split())
        for text in (page.read_text("utf-8"), str(failure.value).partition("\n  differs")[0])
    )
    assert words in shown


def test_the_tests_of_the_page_of_continuous_integration_pass() -> None:
    names = run_tests_of(DOCS / "continuous-integration.md")
    assert len([name for name in names if name.startswith("test_")]) == 2
    function, arguments = names["step"]()
    with impl.deterministic():
        assert impl.audit(function)(*arguments).ok

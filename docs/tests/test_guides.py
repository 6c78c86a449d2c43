"""The pages for users: their code runs, and prints what they show."""

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

import impl

DOCS = Path(__file__).parents[1]
#: A block of Python, and the block of its output if one follows.
_BLOCK = re.compile(r"^```python\n(.*?)^```$(?:\n+^```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> list[tuple[str, str]]:
    """Returns the code of each block of a page, and the output that follows it."""
    return _BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))


def run(code: str, name: str, names: dict[str, Any]) -> str:
    """Runs a block as a file of its own and returns what it prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, name, "exec"), names)
    return printed.getvalue()


def in_any_release(text: str) -> str:
    """Returns a text without the line numbers of JAX's files, which change with releases."""
    return re.sub(r"(jax/_src/[\w/]+\.py):\d+", r"\1", text)


def test_the_page_of_the_audit_shows_what_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XLA_FLAGS", raising=False)  # A flag can exclude kernels that are timed.
    found = blocks("reading-an-audit.md")
    assert len(found) > 4
    names: dict[str, Any] = {}
    for code, shown in found:
        assert in_any_release(run(code, "train.py", names)) == in_any_release(shown)


def test_the_tests_of_the_page_of_the_plugin_pass() -> None:
    names: dict[str, Any] = {}
    (shown, _), (callback, _) = blocks("testing.md")
    run(shown, "test_step.py", names)
    run(callback, "test_step.py", names)
    tests = [name for name in names if name.startswith("test_")]
    assert len(tests) == 2
    for name in tests:
        names[name](impl.testing.assert_deterministic)
    with pytest.raises(AssertionError) as failure:
        impl.testing.assert_deterministic(names["step"], names["jnp"].ones(4))
    page = (DOCS / "testing.md").read_text(encoding="utf-8")
    assert "\n".join(str(failure.value).splitlines()[:2]) in page

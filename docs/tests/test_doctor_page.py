"""The doctor's reports on the page about reproducible programs are those that it prints."""

import re
import sys
from pathlib import Path

import pytest

from impl import __main__ as command

ROOT = Path(__file__).parents[2]
EXAMPLE = "docs/examples/unseeded.py"


def shown(command_line: str) -> str:
    """Returns the text that the page shows after a command."""
    page = (ROOT / "docs" / "reproducibility.md").read_text(encoding="utf-8")
    text = page.partition(f"`{command_line}`")[2]
    found = re.search(r"```text\n(.*?)\n```", text, re.DOTALL)
    assert found is not None
    return found[1]


def plain(text: str) -> str:
    """Returns a text without the parts that depend on a release of JAX or on earlier programs."""
    text = " ".join(text.split())
    return re.sub(
        r"(; )?\d+ operations? outside of jit|\d+ equations|call \d+ of \d+|'\S+' of \S+", "", text
    )


@pytest.mark.parametrize("option", ["--after", "--twice"])
def test_the_page_shows_what_the_doctor_prints(
    option: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    monkeypatch.setattr(sys, "argv", [])
    monkeypatch.setattr(sys, "path", [*sys.path])
    command.main(["doctor", option, EXAMPLE])
    printed = capsys.readouterr().out
    assert plain(shown(f"python -m impl doctor {option} {EXAMPLE}")) in plain(printed)

"""Writes the sources of pages that a build makes, in folders that git ignores."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def write(folder: Path, pages: Mapping[str, str]) -> None:
    """Makes a folder hold these pages alone.

    An unchanged file is left alone, because Sphinx reads a page again if its date is new.

    Args:
        folder: The folder.
        pages: The Markdown of each page, by its name without a suffix.
    """
    folder.mkdir(exist_ok=True)
    names = {f"{name}.md" for name in pages}
    for file in folder.iterdir():
        if file.name not in names:
            file.unlink()
    for name, text in pages.items():
        file = folder / f"{name}.md"
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")

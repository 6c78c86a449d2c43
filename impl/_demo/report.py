"""What the demo prints: sections of plain text, with claims that hold or do not."""

from __future__ import annotations

import hashlib
import textwrap
from typing import TextIO

import jax
import numpy as np

_WIDTH = 88


class Report:
    """Writes sections and counts the claims in them.

    Args:
        out: Where to write.

    Attributes:
        claims: How many claims were made.
        failed: Those that do not hold.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self.claims = 0
        self.failed: list[str] = []

    def section(self, title: str) -> None:
        """Starts a section."""
        self.line()
        self.line(title)
        self.line("-" * len(title))

    def text(self, text: str) -> None:
        """Writes a paragraph, wrapped."""
        self.line(textwrap.fill(text, _WIDTH))

    def quote(self, text: str) -> None:
        """Writes what something else says, wrapped and set off."""
        self.line(textwrap.fill(text, _WIDTH, initial_indent="    ", subsequent_indent="    "))

    def claim(self, text: str, *, holds: bool) -> None:
        """Writes a claim, and whether it holds."""
        self.claims += 1
        if not holds:
            self.failed.append(text)
        mark = "[ok] " if holds else "[FAILED] "
        self.line(textwrap.fill(mark + text, _WIDTH, subsequent_indent=" " * len(mark)))

    def line(self, text: str = "") -> None:
        """Writes one line as it is."""
        self._out.write(text + "\n")
        self._out.flush()  # A section takes seconds: the reader is not to wait for the next.


def fingerprint(tree: object) -> str:
    """SHA-256 of the bits of all arrays of a tree, in the order of its keys."""
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(tree):
        digest.update(np.asarray(leaf).tobytes())
    return digest.hexdigest()

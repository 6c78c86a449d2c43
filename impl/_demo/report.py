"""The output of the demo: sections of plain text, with claims that hold or do not."""

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
        out: The stream to write to.

    Attributes:
        claims: Number of claims so far.
        failed: The claims that do not hold.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self.claims = 0
        self.failed: list[str] = []

    def section(self, title: str) -> None:
        self.line()
        self.line(title)
        self.line("-" * len(title))

    def text(self, text: str) -> None:
        """Writes a paragraph, wrapped."""
        self.line(textwrap.fill(text, _WIDTH))

    def quote(self, text: str) -> None:
        """Writes an indented paragraph, wrapped: the output of something else."""
        self.line(textwrap.fill(text, _WIDTH, initial_indent="    ", subsequent_indent="    "))

    def claim(self, text: str, *, holds: bool) -> None:
        """Writes a claim and whether it holds."""
        self.claims += 1
        if not holds:
            self.failed.append(text)
        mark = "[ok] " if holds else "[FAILED] "
        self.line(textwrap.fill(mark + text, _WIDTH, subsequent_indent=" " * len(mark)))

    def line(self, text: str = "") -> None:
        self._out.write(text + "\n")
        self._out.flush()  # A section takes seconds, and its reader should see it as it comes.


def fingerprint(tree: object) -> str:
    """Returns the SHA-256 of the bits of all arrays of a tree, in the order of its keys."""
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(tree):
        digest.update(np.asarray(leaf).tobytes())
    return digest.hexdigest()

"""Writes a page for each profile to ``_generated``, before Sphinx reads the sources.

The pages hold the directives of ``spec_lists``. They are generated so that a new profile gets its
page without further work.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from sphinx.application import Sphinx

import spec


class Part(NamedTuple):
    """A section of a profile's page.

    Attributes:
        heading: The heading.
        lead: The sentence before the list of rows.
        verb: The behaviour as a predicate, for lists that name it.
    """

    heading: str
    lead: str
    verb: str


PARTS: Mapping[spec.Behaviour, Part] = {
    "deterministic": Part(
        "Operations that become deterministic",
        "While the mode is on, these run a deterministic algorithm.",
        "deterministic",
    ),
    "raise": Part(
        "Operations that raise",
        "While the mode is on, these raise `RuntimeError`, or give a `UserWarning` if"
        " `warn_only=True`.",
        "raises",
    ),
    "fill": Part(
        "Operations that fill memory",
        "While the mode is on, these write a known value into memory that would otherwise be"
        " uninitialized.",
        "fills memory",
    ),
}
OUT_OF_SCOPE = "Out of scope"
#: The sections of rows that set options of XLA, by kind.
OPTIONS: Mapping[spec.Kind, Part] = {
    "backend": Part(
        "Switches of backends",
        "Programs that are compiled with `impl.jit` or `impl.compile_options` keep these rules.",
        "",
    ),
    "compiler": Part(
        "Rules of the compiler",
        "While the mode is on, PyTorch's compiler keeps these rules. `impl.jit` and"
        " `impl.compile_options` make XLA keep them.",
        "",
    ),
}

_PAGE = """\
# {title}

```{{spec-profile}} {name}
```

{parts}
{options}
## {out_of_scope}

PyTorch's documents list these, but no JAX platform can meet them.

```{{spec-out-of-scope}}
:profile: {name}
```
"""
#: The section of a behaviour.
_PART = """\
## {heading}

{lead}

```{{spec-list}}
:profile: {name}
:behaviour: {behaviour}
```
"""
#: The section of a kind of rows that set options.
_KIND = """\
## {heading}

{lead}

```{{spec-kind}} {kind}
:profile: {name}
```
"""


def page(entries: spec.Spec, profile: spec.Profile) -> str:
    """Returns the source of a profile's page."""
    parts = "\n".join(
        _PART.format(heading=part.heading, lead=part.lead, name=profile.name, behaviour=behaviour)
        for behaviour, part in PARTS.items()
        if behaviour != "fill" or entries.select(profile=profile.name, behaviour="fill")
    )
    options = "\n".join(
        _KIND.format(heading=part.heading, lead=part.lead, name=profile.name, kind=kind)
        for kind, part in OPTIONS.items()
        if entries.select(profile=profile.name, kind=kind)
    )
    return _PAGE.format(
        title=f"`{profile.name}`",
        name=profile.name,
        parts=parts,
        options=options,
        out_of_scope=OUT_OF_SCOPE,
    )


def write_pages(app: Sphinx) -> None:
    """Writes the page of each profile, and leaves an unchanged file alone.

    Sphinx reads a page again if its date is new.
    """
    folder = Path(app.srcdir) / "_generated"
    folder.mkdir(exist_ok=True)
    entries = spec.load()
    pages = {f"{name}.md": page(entries, profile) for name, profile in entries.profiles.items()}
    for file in folder.iterdir():
        if file.name not in pages:
            file.unlink()
    for name, text in pages.items():
        file = folder / name
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")

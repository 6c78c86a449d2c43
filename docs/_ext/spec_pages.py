"""The page of each profile, written to ``_generated`` before Sphinx reads the sources."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from sphinx.application import Sphinx

import spec


class Part(NamedTuple):
    """How the site speaks of one behaviour."""

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
        "While the mode is on, these raise `RuntimeError`, or give a `UserWarning` where"
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
#: What a profile's page says of rows that set options of XLA, by kind.
OPTIONS: Mapping[spec.Kind, Part] = {
    "backend": Part(
        "Switches of backends",
        "By `impl.jit` and `impl.compile_options`, programs are compiled so:",
        "",
    ),
    "compiler": Part(
        "What the compiler does not do",
        "PyTorch's compiler is kept from these while the mode is on. `impl.jit` and"
        " `impl.compile_options` keep XLA from what it has in their place.",
        "",
    ),
}

PAGE = """\
# {title}

```{{spec-profile}} {name}
```

{parts}
{options}
## {out_of_scope}

These stand in the documents, but no JAX platform can meet them.

```{{spec-out-of-scope}}
:profile: {name}
```
"""
PART = """\
## {heading}

{lead}

```{{spec-list}}
:profile: {name}
:behaviour: {behaviour}
```
"""


KIND = """\
## {heading}

{lead}

```{{spec-kind}} {kind}
:profile: {name}
```
"""


def page(entries: spec.Spec, profile: spec.Profile) -> str:
    """The source of a profile's page."""
    parts = "\n".join(
        PART.format(heading=part.heading, lead=part.lead, name=profile.name, behaviour=behaviour)
        for behaviour, part in PARTS.items()
        if behaviour != "fill" or entries.select(profile=profile.name, behaviour="fill")
    )
    options = "\n".join(
        KIND.format(heading=part.heading, lead=part.lead, name=profile.name, kind=kind)
        for kind, part in OPTIONS.items()
        if entries.select(profile=profile.name, kind=kind)
    )
    return PAGE.format(
        title=f"`{profile.name}`",
        name=profile.name,
        parts=parts,
        options=options,
        out_of_scope=OUT_OF_SCOPE,
    )


def write_pages(app: Sphinx) -> None:
    """Writes the page of each profile; one that is as it was keeps its date."""
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

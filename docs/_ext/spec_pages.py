"""Writes a page for each profile to ``profiles``, before Sphinx reads the sources.

The pages hold the directives of ``spec_lists``. They are generated so that a new profile gets its
page without further work.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from sphinx.application import Sphinx

import generated
import spec
from spec import english
from spec.resolve import answers_of, unlisted


class Part(NamedTuple):
    """A section of a profile's page.

    Attributes:
        heading: The heading.
        lead: The sentences before the list of rows.
    """

    heading: str
    lead: str


PARTS: Mapping[spec.Behaviour, Part] = {
    "deterministic": Part(
        "Operations that become deterministic",
        "While the mode is on, these run a deterministic algorithm.",
    ),
    "raise": Part(
        "Operations that raise",
        "While the mode is on, these raise `RuntimeError`, or give a `UserWarning` if"
        " `warn_only=True`.",
    ),
    "fill": Part(
        "Operations that fill memory",
        "While the mode is on, these write a known value into memory that would otherwise be"
        " uninitialized.",
    ),
}
#: The sections of calls that the documents do not list, by the effect of the mode.
UNLISTED: Mapping[spec.Effect, Part] = {
    "ordered_unlisted": Part(
        "Operations that the documents do not list, and that are ordered here",
        "With the mode off, two runs of these can differ, and PyTorch's documents are silent."
        " While the mode is on, these run the deterministic algorithm of the profile `{own}`.",
    ),
    "fills": Part(
        "Operations that the documents do not list, and that fill memory here",
        "While the mode is on, these write the known value that the profile `{own}` lists.",
    ),
    "same": Part(
        "Operations that the documents do not list, and that give the same bits anyway",
        "These give the same bits in every run, also with the mode off. So does every other call of"
        " an operation on this site that no row is about. While the mode is on, these run the"
        " algorithm of the profile `{own}`, whose guarantee can be stronger.",
    ),
}
OUT_OF_SCOPE = "Out of scope"
#: The sections of rows that set options of XLA, by kind.
OPTIONS: Mapping[spec.Kind, Part] = {
    "backend": Part(
        "Switches of backends",
        "Programs that are compiled with `impl.jit` or `impl.compile_options` keep these rules.",
    ),
    "compiler": Part(
        "Rules of the compiler",
        "While the mode is on, PyTorch's compiler keeps these rules. `impl.jit` and"
        " `impl.compile_options` make XLA keep them.",
    ),
}

_PAGE = """\
# {title}

```{{spec-profile}} {name}
```

{parts}
{unlisted}
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
#: The section of an effect on calls that the profile does not list.
_UNLISTED = """\
## {heading}

{lead}

```{{spec-unlisted}} {effect}
:profile: {name}
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


def unlisted_rows(entries: spec.Spec, profile: str, effect: spec.Effect) -> list[spec.Row]:
    """Returns the rows that decide calls which the profile does not list, with this effect."""
    rows = entries.select(kind="op", active=True)
    return [row for row in rows if unlisted(row, profile, entries) == effect]


def page(entries: spec.Spec, profile: spec.Profile) -> str:
    """Returns the source of a profile's page."""
    parts = "\n".join(
        _PART.format(heading=part.heading, lead=part.lead, name=profile.name, behaviour=behaviour)
        for behaviour, part in PARTS.items()
        if behaviour != "fill" or entries.select(profile=profile.name, behaviour="fill")
    )
    not_listed = "\n".join(
        _UNLISTED.format(
            heading=part.heading,
            lead=part.lead.format(own=entries.own_profile),
            name=profile.name,
            effect=effect,
        )
        for effect, part in UNLISTED.items()
        if unlisted_rows(entries, profile.name, effect)
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
        unlisted=not_listed,
        options=options,
        out_of_scope=OUT_OF_SCOPE,
    )


def not_listed(row: spec.Row, profile: str) -> tuple[str, str]:
    """Returns a heading and a text about a row under a profile that does not list it."""
    if row.kind != "op" or not row.active:
        return "Not listed", ""
    effect = unlisted(row, profile)
    if effect is not None:
        return "Not listed", english.EFFECTS[effect]
    others = sorted({answer.row.id for answer in answers_of(row, profile) if answer.row})
    return "Left to other rows", ", ".join(others)


def write_pages(app: Sphinx) -> None:
    """Writes the page of each profile."""
    entries = spec.load()
    pages = {name: page(entries, profile) for name, profile in entries.profiles.items()}
    generated.write(Path(app.srcdir) / "profiles", pages)

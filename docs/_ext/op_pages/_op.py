"""The page of an op, and the list of all ops."""

from __future__ import annotations

from collections.abc import Iterable

import answers

import spec
from op_pages import _costs, _sections, _text
from op_pages._sections import Subject

_CARD = """\
:::{{grid-item-card}} {title}
{lines}

{link}
:::
"""
_PAGE = """\
---
orphan: true
---

(op-{op})=

# {op}

`impl.{op}` is {torch} for JAX. {summary}

::::{{grid}} 1 1 2 2
:gutter: 3

{cards}
::::

## Every answer

{answers}

## Why it varies

{why}

## What PyTorch does

{pytorch}

## The order

{orders}

## What it costs

{costs}

## The error

{errors}

## An example

{example}

## Evidence

{evidence}

## Names

{names}
"""


def _card(title: str, lines: Iterable[str], link: str) -> str:
    bullets = "\n".join(f"- {line}" for line in lines)
    return _CARD.format(title=title, lines=bullets, link=link)


def _cards(subject: Subject) -> str:
    default, own = subject.rules.default_profile, subject.rules.own_profile or ""
    portable = _text.digest(subject.under(own, "portable"))
    by_default = [
        "mode off: " + line for line in _text.digest(subject.under(None, answers.OFF))
    ] + [
        f"mode on, {{profile}}`{default}`: {line}"
        for line in _text.digest(subject.under(default, "run_to_run"))
    ]
    complete = [*_text.digest(subject.under(own, "run_to_run"))]
    complete += [f'with `guarantee="portable"`: {line}' for line in portable]
    return "\n".join(
        [
            _card("By default", by_default, "[Every answer](#every-answer)"),
            _card(f"Under {{profile}}`{own}`", complete, "[The order](#the-order)"),
            _card("What it costs", _costs.card(subject.op), "[Every figure](#what-it-costs)"),
            _card("How we know", _sections.evidence_card(subject), "[The reports](#evidence)"),
        ]
    )


def _summary(subject: Subject) -> str:
    """Returns what a reader has to know first, in a sentence."""
    default = subject.rules.default_profile
    on = subject.under(default, "run_to_run")
    off = subject.under(None, answers.OFF)
    varies = any(cell.word == "may vary" for cell in off)
    if not varies:
        return "Each run of it gives the same bits, also with the mode off."
    raises = [cell for cell in on if cell.word == "raises"]
    if not raises:
        return "On a GPU two runs can differ; the mode makes them equal."
    own = subject.rules.own_profile
    subjects = dict.fromkeys(_text.SUBJECTS[cell.direction] for cell in raises)
    return (
        f"On a GPU two runs can differ. With the mode on, {' and '.join(subjects)} can raise an"
        f" error there, and under {{profile}}`{own}` it is deterministic."
    )


def page(subject: Subject) -> str:
    """Returns the source of the page of an op."""
    torch = next((row.torch for row in subject.rows if row.torch), "")
    return _PAGE.format(
        op=subject.op,
        torch=f"PyTorch's `{torch}`" if torch else "an operation",
        summary=_summary(subject),
        cards=_cards(subject),
        answers=_sections.answers_table(subject),
        why=_sections.why(subject),
        pytorch=_sections.pytorch(subject),
        orders=_sections.orders(subject),
        costs="\n".join(_costs.section(subject.op)),
        errors=_sections.errors(subject),
        example=_sections.example(subject),
        evidence=_sections.evidence(subject),
        names=_sections.names(subject),
    )


def index(rules: spec.Spec) -> str:
    """Returns the source of the list of ops."""
    rows = []
    for op in answers.ops(rules):
        cells = [cell for cell in answers.of_op(op, rules) if cell.profile in (None, _default())]
        words = dict.fromkeys(c.word for c in cells if c.guarantee == "run_to_run")
        off = dict.fromkeys(c.word for c in cells if c.guarantee is answers.OFF)
        rows.append([f"[{op}]({op}.md)", *(_in_order(found) for found in (off, words))])
    table = _text.list_table(
        "The operations", ["Operation", "Mode off", f"Mode on, {rules.default_profile}"], rows
    )
    return (
        "# Operations\n\nEach operation has a page: what happens in its calls, what it costs, and"
        " how we know. Several words stand where the answer depends on the call or the"
        f" device.\n\n{table}"
    )


def _default() -> str:
    return spec.load().default_profile


def _in_order(words: Iterable[str]) -> str:
    found = set(words)
    return ", ".join(word for word in answers.WORDS if word in found)

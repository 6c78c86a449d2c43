"""The page of an op, and the list of all ops."""

from __future__ import annotations

from collections.abc import Iterable

import answers
import spec
from op_pages import _costs, _jax_names, _sections, _text
from op_pages._sections import Subject

_CARD = """\
:::{{grid-item-card}} {title}
{lines}

{link}
:::
"""
_WORDS = "[What the words mean](../guarantees.md#evidence)"
_PAGE = """\
---
orphan: true
---

(op-{op})=

# {op}

{index}

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


def _card(title: str, text: str, link: str) -> str:
    return _CARD.format(title=title, lines=text, link=link)


def _cards(subject: Subject) -> str:
    default, own = subject.rules.default_profile, subject.rules.own_profile or ""

    def words(profile: str | None, guarantee: str | None) -> str:
        return _text.bullets(_text.digest(subject.under(profile, guarantee)))

    by_default = (
        f"With the mode off:\n\n{words(None, answers.OFF)}\n\n"
        f"With the mode on, whose default profile is {{profile}}`{default}`:\n\n"
        f"{words(default, 'run_to_run')}"
    )
    complete = (
        f"{words(own, 'run_to_run')}\n\n"
        f'With `guarantee="portable"` besides:\n\n{words(own, "portable")}'
    )
    costs = _text.bullets(_costs.card(subject.op))
    evidence = _text.bullets(_sections.evidence_card(subject))
    return "\n".join(
        [
            _card("By default", by_default, "[Every answer](#every-answer)"),
            _card(f"Under {own}", complete, "[The order](#the-order)"),
            _card("What it costs", costs, "[Every figure](#what-it-costs)"),
            _card("How we know", evidence, f"[The reports](#evidence) · {_WORDS}"),
        ]
    )


def _summary(subject: Subject) -> str:
    """Returns what a reader has to know first, in a sentence."""
    default = subject.rules.default_profile
    on = subject.under(default, "run_to_run")
    off = subject.under(None, answers.OFF)
    varies = any(cell.word == "may vary" for cell in off)
    raises = [cell for cell in on if cell.word == "raises"]
    if not varies and raises:
        return (
            "Each run of it gives the same bits, also with the mode off. With the mode on,"
            f" {{profile}}`{default}` refuses it on a GPU, as PyTorch does."
        )
    if not varies:
        return "Each run of it gives the same bits, also with the mode off."
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
    op_name, callers = subject.op.rpartition(".")[2], _sections.callers(subject)
    torch = next((row.torch for row in subject.rows if row.torch), "")
    return _PAGE.format(
        op=subject.op,
        index=_text.index([op_name, *callers, *_jax_names.short_names(subject.op)]),
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
        " how we know. [The matrix](../matrix.md) has them in one table, with filters. Several"
        f" words stand where the answer depends on the call or the device.\n\n{table}"
    )


def _default() -> str:
    return spec.load().default_profile


def _in_order(words: Iterable[str]) -> str:
    found = set(words)
    return ", ".join(word for word in answers.WORDS if word in found)

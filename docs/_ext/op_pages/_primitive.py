"""The page of a primitive of JAX, and the list of all primitives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import answers
import spec
from op_pages import _costs, _jax_names, _text

_PAGE = """\
---
orphan: true
---

(primitive-{op})=

# {op}

{index}

{summary}

::::{{grid}} 1 1 2 2
:gutter: 3

:::{{grid-item-card}} By default
{default}

[Every answer](#every-answer)
:::

:::{{grid-item-card}} Under `guarantee="portable"`
{portable}
:::

:::{{grid-item-card}} What it costs
{costs}

[Every figure](#what-it-costs)
:::

:::{{grid-item-card}} How we know
{evidence}

[The reasons](#the-reasons)
:::

::::

## Every answer

{answers}

## What to do

{remedies}

## What it costs

{figures}

## The reasons

{reasons}

## Functions that contain it

{functions}

## Names

In a jaxpr it is {names}. [Your program](../your-program.md) shows how to turn the mode on, and
[reading an audit](../reading-an-audit.md) how to find the equations of a program.
"""


def page(op: str, rules: spec.Spec) -> str:
    """Returns the source of the page of a primitive."""
    cells = answers.of_primitive(op, rules)
    rows = [row for row in rules.primitives if row.op == op and row.active]
    off = [cell for cell in cells if cell.guarantee is answers.OFF]
    on = [cell for cell in cells if cell.guarantee == "run_to_run"]
    portable = [cell for cell in cells if cell.guarantee == "portable"]
    default = (
        f"With the mode off:\n\n{_text.bullets(_text.digest(off))}\n\n"
        f"With the mode on:\n\n{_text.bullets(_text.digest(on))}"
    )
    names = dict.fromkeys(name for row in rows for name in row.primitives)
    return _PAGE.format(
        op=op,
        index=_text.index([op.rpartition(".")[2], *names]),
        summary=_summary(off, on),
        default=default,
        portable=_text.bullets([f"**{cell.word}**: {cell.sentence}" for cell in portable]),
        costs=_text.bullets(_costs.card_of_primitive(cells)),
        figures="\n".join(_costs.section_of_primitive(cells)),
        remedies=_text.bullets([row.remedy for row in rows if row.remedy] or ["Nothing."]),
        evidence=_text.bullets(_evidence(rows, off, on)),
        answers=_text.list_table(
            f"Answers for {op}",
            _text.ANSWER_HEADINGS,
            _text.answer_rows(cells),
        ),
        reasons="\n".join(_reasons(rows, rules)),
        functions=_functions(op),
        names=", ".join(f"`{name}`" for name in names),
    )


def _evidence(
    rows: Sequence[spec.Primitive], off: Sequence[answers.Cell], on: Sequence[answers.Cell]
) -> list[str]:
    """Returns the evidence for answers that a reader has to know; if there is none, for all."""
    told = {cell.row for cell in (*off, *on) if cell.word != "same bits anyway"}
    texts = [row.evidence for row in rows if row.evidence and row.id in told]
    return texts or [row.evidence for row in rows if row.evidence]


def _summary(off: Sequence[answers.Cell], on: Sequence[answers.Cell]) -> str:
    """Returns the sentence that stands first on the page of a primitive."""
    words = {cell.word for cell in on}
    if words == {"same bits anyway"}:
        return "A primitive of JAX. Each run of it gives the same bits, also with the mode off."
    if "deterministic" in words:
        return "A primitive of JAX. On a GPU two runs can differ; the mode makes them equal."
    if any(cell.word == "may vary" for cell in off):
        return "A primitive of JAX. On a GPU two runs can differ, and the mode does not change it."
    return "A primitive of JAX. It does not tell whether two runs give the same bits."


def _reasons(rows: Sequence[spec.Primitive], rules: spec.Spec) -> Iterator[str]:
    """Yields each row with its evidence, order and sources."""
    for row in rows:
        yield f"{row.condition[:1].upper()}{row.condition[1:]} ({{row}}`{row.id}`)"
        parts = [row.evidence or "No reason is stated."]
        parts += [f"- To do: {row.remedy}"] if row.remedy else []
        parts += [f"- Order: {{order}}`{row.order}`"] if row.order else []
        if row.order and row.mode_off:
            parts += [f"- Why it varies: {rules.orders[row.order].varies}"]
        for source in row.sources:
            document = rules.documents[source.document]
            releases = ", ".join(source.releases)
            parts.append(f"- Source: {document.title}, {releases}: “`{source.phrase}`”")
        yield (
            ": " + "\n\n  ".join(parts[:1]) + "\n\n" + "\n".join(f"  {part}" for part in parts[1:])
        )
        yield ""


def _functions(op: str) -> str:
    """Returns the functions of JAX whose programs have the primitive."""
    uses = _jax_names.uses().get(op, ())
    if len(uses) > len({entry.name for entry in _jax_names.table()}) / 2:
        return "Most functions of JAX contain it."
    own = [f"`{use.function}`" for use in uses if not use.in_gradient]
    gradients = [f"`{use.function}`" for use in uses if use.in_gradient]
    lines = [f"- {', '.join(own)}"] if own else []
    lines += [f"- only in the gradient: {', '.join(gradients)}"] if gradients else []
    if not lines:
        return "No function that was traced when the site was built contains it."
    return "Traced when the site was built:\n\n" + "\n".join(lines)


def index(rules: spec.Spec) -> str:
    """Returns the source of the list of primitives."""
    rows = []
    for op in answers.primitives(rules):
        cells = answers.of_primitive(op, rules)
        columns = []
        for guarantee in (answers.OFF, *answers.GUARANTEES):
            found = {cell.word for cell in cells if cell.guarantee == guarantee}
            columns.append(", ".join(word for word in answers.WORDS if word in found))
        rows.append([f"[{op}]({op}.md)", *columns])
    table = _text.list_table(
        "The primitives", ["Primitive", "Mode off", "Mode on", "Portable"], rows
    )
    return (
        "# Primitives of JAX\n\nEvery program of JAX is made of primitives. The rows of the"
        " spec describe them. [Plain JAX under the mode](../primitives.md) groups them by"
        f" answer.\n\n{table}"
    )

"""The built page of each profile against the rows."""

import collections
import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser

import pytest

import spec
import spec_pages
from spec.calls import distinct_calls

SPEC = spec.load()


class Links(HTMLParser):
    """Collects the links to rows in list items, each with the h2 heading above it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[tuple[str, str]] = []
        self.heading = ""
        self.in_heading = False
        self.items = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "h2":
            self.heading, self.in_heading = "", True
        self.items += tag == "li"
        row = re.search(r"rows\.html#(\w+)$", dict(attrs).get("href") or "")
        if tag == "a" and row and self.items:
            self.links.append((self.heading, row[1]))

    def handle_endtag(self, tag: str) -> None:
        if tag == "h2":
            self.in_heading = False
        self.items -= tag == "li"

    def handle_data(self, data: str) -> None:
        # A heading ends with a mark that links to it.
        if self.in_heading and data != "¶":
            self.heading += data


def listed_rows(profile: str) -> Iterator[tuple[str, str]]:
    """Yields the heading and the id of every row that a profile's page has to list."""
    for row in SPEC.rows:
        behaviour = row.behaviour[profile]
        if behaviour is not None and not row.active:
            yield spec_pages.OUT_OF_SCOPE, row.id
        elif behaviour is not None:
            part = spec_pages.OPTIONS.get(row.kind, spec_pages.PARTS[behaviour])
            yield part.heading, row.id
    yield from unlisted_rows(profile)


def unlisted_rows(profile: str) -> Iterator[tuple[str, str]]:
    """Yields the heading and the id of every row by which a call that is not listed is decided."""
    for row in SPEC.select(kind="op", active=True):
        effects = set()
        for facts in distinct_calls(SPEC.select(op=row.op), SPEC.facts):
            for device in filter(row.covers, spec.DEVICES):
                answer = spec.resolve(row.op, row.direction, device, facts, profile)
                if answer.row is not None and answer.row.id == row.id and not answer.listed:
                    effects.add(answer.effect)
        for effect in sorted(effects - ({"same"} if len(effects) > 1 else set())):
            yield spec_pages.UNLISTED[effect].heading, row.id


@pytest.mark.parametrize("profile", SPEC.profiles)
def test_page_of_a_profile_lists_each_row_once_under_its_behaviour(
    profile: str, page_html: Callable[[str], str]
) -> None:
    links = Links(page_html(f"profiles/{profile}")).links
    assert collections.Counter(links) == collections.Counter(listed_rows(profile))


def test_page_out_of_scope_lists_every_such_row_once(page_html: Callable[[str], str]) -> None:
    ids = [row for _, row in Links(page_html("out-of-scope")).links]
    assert sorted(ids) == sorted(row.id for row in SPEC.rows if not row.active)

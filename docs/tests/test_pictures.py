"""Tests of the pictures: that they come from the data, and that the pages show them."""

import dataclasses
import functools
import re

import numpy as np
import pytest

import pictures
from pictures import costs, evidence, order_trees, orders, sums, themes
from pictures.order_trees import Example, Fold


def sum_of_tree(fold, terms):
    """Adds terms as a tree says."""
    parts = [sum_of_tree(m, terms) if isinstance(m, Fold) else terms[m] for m in fold.members]
    return functools.reduce(np.add, parts)


@pytest.mark.parametrize("order", orders.names())
def test_the_tree_of_an_order_gives_the_bits_of_its_oracle(order):
    example = order_trees.examples()[order]
    tree = order_trees.tree(example)
    rng = np.random.default_rng(1)
    terms = rng.standard_normal((len(example.names), 20)).astype(np.float32)
    np.testing.assert_array_equal(sum_of_tree(tree, terms), example.total(terms))
    # The terms tell this order from others.
    assert (example.total(terms) != example.total(rng.permutation(terms))).any()


def test_another_order_has_another_picture():
    def pairs(terms):
        return (terms[0] + terms[1]) + (terms[2] + terms[3])

    def backwards(terms):
        return functools.reduce(np.add, terms[::-1])

    names = tuple("abcd")
    assert order_trees.tree(Example(pairs, names)) == Fold((0, 1, Fold((2, 3))))
    assert order_trees.tree(Example(backwards, names)) == Fold((3, 2, 1, 0))


def test_a_long_run_is_one_box_and_equal_runs_are_one():
    def runs(terms):
        return functools.reduce(np.add, [functools.reduce(np.add, run) for run in terms])

    example = Example(
        lambda terms: runs(terms.reshape(9, 10, -1)), tuple(f"t{n}" for n in range(90))
    )
    assert orders.shortened(order_trees.tree(example), example) == orders.Run(
        "t0", "t89", "9 runs of 10", 90
    )


def test_the_sums_are_those_of_the_terms():
    plain, exact = sums.results()
    assert len(set(plain)) > 1
    assert len(exact) == 1
    assert min(plain) <= next(iter(exact)) <= max(plain)


def test_costs_are_read_from_the_reports():
    assert costs.measured()  # The committed report has cases compared with PyTorch.


def test_the_bars_count_every_active_row_of_a_device(monkeypatch):
    counts = {
        "cpu": dict.fromkeys(evidence.row_evidence.LEVELS, 2),
        "cuda": dict.fromkeys(evidence.row_evidence.LEVELS, 1),
    }
    monkeypatch.setattr(evidence, "counts", lambda: counts)
    axes = evidence.draw(themes.THEMES[0]).axes[0]
    widths = [bar.get_width() for bar in axes.patches]
    assert sum(widths) == 3 * len(evidence.row_evidence.LEVELS)


#: The pictures, with the pictures of one family of benchmarks.
NAMES = [
    name for name in pictures.pictures() if not name.startswith("bench-") or "-scatter-" in name
]


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_has_a_file_for_each_theme_and_tells_what_it_shows(name, tmp_path):
    picture = pictures.pictures()[name]
    files = themes.write(name, picture.draw, tmp_path)
    assert list(files) == ["light", "dark"]
    light, dark = (path.read_text("utf-8") for path in files.values())
    assert re.sub("#[0-9a-f]{6}", "", light) != light
    assert light != dark
    assert "\n" not in picture.description()
    again = themes.write(name, picture.draw, tmp_path / "again")
    assert again["light"].read_text("utf-8") == light


def test_the_page_of_orders_shows_each_tree(page_html):
    text = page_html("orders")
    for order in orders.names():
        for theme in themes.THEMES:
            assert re.search(rf"<img[^>]*only-{theme.name}[^>]*order-{order}-{theme.name}", text)


@dataclasses.dataclass
class Env:
    """The environment that a directive gets, as far as the test needs it."""

    srcdir: str

    @property
    def docname(self):
        return "ops/page"

    def doc2path(self, name):
        return f"{self.srcdir}/{name}.md"


def test_images_are_found_from_the_folder_of_their_page(tmp_path):
    light, dark = pictures.images("order-source", Env(str(tmp_path)))
    assert light["uri"] == "../_pictures/order-source-light.svg"
    assert (tmp_path / "ops" / dark["uri"]).resolve().exists()
    assert light["alt"] == pictures.pictures()["order-source"].description()

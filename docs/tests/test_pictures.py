"""Tests of the pictures: that they come from the data, and that the pages show them."""

import dataclasses
import re

import pytest

import pictures
from pictures import costs, evidence, sums, themes


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
    light, dark = pictures.images("costs-cpu", Env(str(tmp_path)))
    assert light["uri"] == "../_pictures/costs-cpu-light.svg"
    assert (tmp_path / "ops" / dark["uri"]).resolve().exists()
    assert light["alt"] == pictures.pictures()["costs-cpu"].description()

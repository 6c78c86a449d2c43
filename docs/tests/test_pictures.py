"""The pictures come from the data, and tell what they show."""

import re
from pathlib import Path

import pytest

import pictures
import row_evidence


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("sums", r"\d\d+ different results if they are added .* 1 if the sum is exact"),
        ("costs-cpu", r"index_add [\d.]+"),
        ("evidence", r"cpu: hardware \d+, .* cuda: hardware \d+"),
        ("bench-scatter-cpu", "index_add, float32: the ratios"),
        ("bench-scatter-cpu-curve", "index_add, float32: the times"),
    ],
)
def test_a_picture_has_a_file_for_each_theme_and_tells_what_it_shows(
    name: str, shown: str, tmp_path: Path
) -> None:
    assert re.search(shown, pictures.write(name, tmp_path))
    light, dark = ((tmp_path / f"{name}-{theme}.svg").read_text() for theme in ("light", "dark"))
    assert light != dark
    assert re.sub("#[0-9a-f]{6}", "", light) == re.sub("#[0-9a-f]{6}", "", dark)
    pictures.write(name, tmp_path / "again")
    assert (tmp_path / "again" / f"{name}-light.svg").read_text() == light


def test_the_bars_count_every_active_row_of_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    levels = row_evidence.LEVELS
    counts = {"cpu": dict.fromkeys(levels, 2), "cuda": dict.fromkeys(levels, 1)}
    monkeypatch.setattr(row_evidence, "counts", lambda _: counts)
    figure, _ = pictures.pictures()["evidence"]()
    bars = (bar for bars in figure.axes[0].containers for bar in bars)
    assert sum(bar.get_width() for bar in bars) == 3 * len(levels)

"""A page shows the tables that it names, with the figures of the files that are kept."""

import json
import re

import cost_files
import cost_tables


def test_each_family_of_a_report_has_a_table_and_pictures() -> None:
    tables = cost_tables.all_tables()
    title, *_ = tables["scatter-cpu"].text()
    assert title == "# index_add, float32"
    assert tables["scatter-cpu"].pictures == ("bench-scatter-cpu", "bench-scatter-cpu-curve")


def test_programs_on_one_device_and_on_eight_have_the_times_of_the_report() -> None:
    table = cost_tables.at_a_glance(cost_files.OF_CPU)
    report = json.loads(cost_files.OF_CPU.read_text(encoding="utf-8"))
    measured = report["families"]["portable"]["measurements"]
    (eight,) = (
        each["sides"]
        for each in measured
        if each["case"] == {"program": "transformer", "devices": "8", "part": "run"}
    )
    ratio = eight["portable"]["median"] / eight["plain"]["median"]
    assert re.search(rf"^\| transformer \| 8 \| run \|.*\({ratio:.1f}\) \|$", table, re.MULTILINE)
    assert table.count("| transformer | ") == table.count("| ResNet block | ") == 4
    # README shows the table too.
    assert table in (cost_files.ROOT / "README.md").read_text(encoding="utf-8")

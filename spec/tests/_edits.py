"""Changes to a copy of the spec, and the problems that the lint then reports."""

from spec import check

ROW = """
[[row]]
id = "R9999"
op = "{op}"
device = "{device}"
behaviour = {{ complete = "deterministic" }}
guarantee = "run_to_run"
{more}
"""


def edit(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text, f"{path.name} does not have {old!r}"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def add(root, family, op, device, more=""):
    """Adds the row R9999 to a family, and its id to the ledger."""
    with (root / "rows" / f"{family}.toml").open("a", encoding="utf-8") as stream:
        stream.write(ROW.format(op=op, device=device, more=more))
    edit(root / "ids.toml", "[retired]", f'R9999 = "{op}"\n[retired]')


def reports(root):
    return [str(problem) for problem in check.problems(root)]


def reports_of_rows(root):
    """Returns the problems, without the ones about the version of the data."""
    files = ("data.toml", "CHANGELOG.md")
    return [str(problem) for problem in check.problems(root) if problem.file not in files]

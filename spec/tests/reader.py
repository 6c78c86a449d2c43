"""A reader of the exported document that imports nothing, as a stranger could write it.

The page docs/data.md has the same in JavaScript.
"""


def passes(test, value):
    """Returns whether the value of one fact passes the test of a condition."""
    if isinstance(test, dict):
        return (
            value not in test.get("not", [])
            and ("min" not in test or value >= test["min"])
            and ("max" not in test or value <= test["max"])
        )
    return value in test if isinstance(test, list) else value == test


def deciding(data, op, direction, device, facts, profile):
    """Returns the row that decides a call under a profile, or None."""
    like = data["devices"][device]["like"] if not data["profiles"][profile]["release"] else None
    matching = [
        row
        for row in data["rows"]
        if row["kind"] == "op"
        and row["state"] == "active"
        and row["op"] == op
        and row["behaviour"][profile]
        and row["device"] in ("any", like or device)
        and (row["direction"] == direction or (direction == "backward" and row["covers_backward"]))
        and all(passes(test, facts[name]) for name, test in row["when"].items())
    ]
    ids = {row["id"] for row in matching}
    decided = [row for row in matching if not ids & set(row["yields_to"])]
    assert len(decided) == bool(matching)
    return decided[0] if decided else None


def deciding_primitive(data, primitive, device, facts):
    """Returns the row that decides an equation of a jaxpr, or None."""
    matching = [
        row
        for row in data["primitives"]
        if primitive in row["primitives"]
        and row["device"] in ("any", device)
        and all(passes(test, facts[name]) for name, test in row["when"].items())
    ]
    return max(matching, key=lambda row: (row["device"] != "any", len(row["when"])), default=None)

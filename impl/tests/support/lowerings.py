"""The lowerings of a path that a CPU can run, as context managers."""

import contextlib

import impl

#: The lowerings by name. On the ordered path all give the same bits.
LOWERINGS = {
    "native": contextlib.nullcontext,
    # A CPU computes the order of a GPU by its own lowerings.
    "stand-in": lambda: impl.testing.emulate("cuda", lowering="native"),
    "xla": lambda: impl.testing.emulate("cuda", lowering="xla"),
    "kernel": lambda: impl.testing.emulate("cuda"),
    "seed 1": lambda: impl.testing.schedule(1),
    "seed 2": lambda: impl.testing.schedule(2),
}
#: The lowerings of another device.
STAND_INS = frozenset(LOWERINGS) - {"native"}
#: The lowerings that differ in more than the order of programs.
DISTINCT = ("native", "xla", "seed 1")

"""The lowerings of a path that a CPU can run, as context managers."""

import contextlib

import impl

#: The lowerings by name. On the ordered path all give the same bits.
LOWERINGS = {
    "native": contextlib.nullcontext,
    # A CPU computes the order of a GPU by its own lowerings.
    "stand-in": lambda: impl.testing.emulate("cuda", lowering="native"),
    "xla": lambda: impl.testing.emulate("cuda", lowering="xla"),
    "seed 1": lambda: impl.testing.schedule(1),
}
#: The lowerings of another device.
STAND_INS = frozenset(LOWERINGS) - {"native"}

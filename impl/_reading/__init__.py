"""Readers of JAX programs, for the audit, the rules and the doctor.

``tracing`` makes the jaxpr of a program, and compiles it. ``control_flow`` describes the jaxprs
inside an equation, and writes the equations of calls in their stead; ``walk`` visits every
equation. ``values`` finds arrays that are known, ``facts`` answers the rows' questions about
an equation, and ``source`` finds its lines of source. ``hlo`` reads the program that XLA compiled,
and ``compiled`` finds the instructions in it that can vary.
"""

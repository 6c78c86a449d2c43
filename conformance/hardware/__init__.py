"""A run of the suite in rounds, shared by several processes: ``run --device cuda``.

A round is a run of pytest, whose workers (pytest-xdist) share the device. In the first round every
test runs. A test that compares bits repeats its call many times, while other work is in flight on
the device. In each further round the tests of bits run again, in fresh processes that compile their
programs again, and their bits must equal the bits of the first round. Every result is written to a
journal at once, so the same command continues a run that was stopped.
"""

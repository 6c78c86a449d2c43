"""A run of the suite in rounds, shared by processes: what ``run --device cuda`` does.

In the first round every test runs, those of bits many times each while other work is in flight on
the device. In each further round the tests of bits run again, in fresh processes that compile
their programs afresh, and their bits have to be those of the first round. What is found is written
down as it is found, so that a process that dies takes nothing along, and a run that was stopped
goes on where it was.
"""

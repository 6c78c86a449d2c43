"""How to call each op and what is right: a module each, named as the op is.

Every module has ``samples()``, which yields ``conformance.case.Sample``.
"""

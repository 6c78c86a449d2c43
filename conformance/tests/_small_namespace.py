"""A module that offers a small adapter, for tests that run the suite in another process."""

from conformance.tests._small import Small

IMPLEMENTATION = Small()

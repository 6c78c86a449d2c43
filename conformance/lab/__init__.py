"""Checks of this project itself: its compiled code, its bits on many settings, and its tests.

The rest of ``conformance`` is for third parties who test a library against the spec.
"""

"""Helpers of the tests of impl, in one module for each subject."""

"""The mode over any JAX program, and the report of what can still vary in one."""

from impl.programs._report import Finding, Report

__all__ = ["Finding", "Report"]

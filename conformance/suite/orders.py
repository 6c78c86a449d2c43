"""The bits of a sum or product of contributions by index."""

from spec.oracles import source as combined

__all__ = ["combined"]

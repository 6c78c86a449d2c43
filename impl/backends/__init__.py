"""Switches of backends, with the names of ``torch.backends``."""

from impl.backends import cudnn

__all__ = ["cudnn"]

"""Loading of data and settings of the mode, with the names of ``torch.utils``."""

from impl.utils import data, deterministic

__all__ = ["data", "deterministic"]

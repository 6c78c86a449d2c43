"""The counterpart of ``torch.utils``."""

from impl.utils import data as data
from impl.utils import deterministic as deterministic

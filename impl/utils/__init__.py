"""What stands under ``torch.utils`` in PyTorch."""

from impl.utils import data as data
from impl.utils import deterministic as deterministic

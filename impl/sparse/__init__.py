"""The ops of ``torch.sparse``."""

from impl.sparse.mm import mm as mm

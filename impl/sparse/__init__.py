"""What stands under ``torch.sparse`` in PyTorch."""

from impl.sparse.mm import mm as mm

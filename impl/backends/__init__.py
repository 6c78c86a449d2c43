"""What stands under ``torch.backends`` in PyTorch."""

from impl.backends import cudnn as cudnn

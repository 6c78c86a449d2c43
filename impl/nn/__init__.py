"""What neural networks are made of."""

from impl.nn import functional as functional

"""The ops of ``torch.nn.functional``, a family in a file.

- ``_pools`` add, ``_max_pools`` take maxima, which ``_maxima`` computes, and ``max_unpool`` writes
  them back. ``_windows`` has the windows of pools and of ``_resampling``, which is interpolation.
- ``_convolution``; ``_padding``; ``_sampling`` at the coordinates of a grid.
- ``_losses`` of classes; ``_ctc``, a loss of sequences; ``_embeddings``; ``_attention``.
"""

from impl.nn.functional._attention import (
    scaled_dot_product_attention as scaled_dot_product_attention,
)
from impl.nn.functional._convolution import conv1d as conv1d
from impl.nn.functional._convolution import conv2d as conv2d
from impl.nn.functional._convolution import conv3d as conv3d
from impl.nn.functional._convolution import conv_transpose1d as conv_transpose1d
from impl.nn.functional._convolution import conv_transpose2d as conv_transpose2d
from impl.nn.functional._convolution import conv_transpose3d as conv_transpose3d
from impl.nn.functional._ctc import ctc_loss as ctc_loss
from impl.nn.functional._embeddings import embedding as embedding
from impl.nn.functional._embeddings import embedding_bag as embedding_bag
from impl.nn.functional._losses import cross_entropy as cross_entropy
from impl.nn.functional._losses import nll_loss as nll_loss
from impl.nn.functional._max_pools import adaptive_max_pool1d as adaptive_max_pool1d
from impl.nn.functional._max_pools import adaptive_max_pool2d as adaptive_max_pool2d
from impl.nn.functional._max_pools import adaptive_max_pool3d as adaptive_max_pool3d
from impl.nn.functional._max_pools import fractional_max_pool2d as fractional_max_pool2d
from impl.nn.functional._max_pools import fractional_max_pool3d as fractional_max_pool3d
from impl.nn.functional._max_pools import max_pool1d as max_pool1d
from impl.nn.functional._max_pools import max_pool2d as max_pool2d
from impl.nn.functional._max_pools import max_pool3d as max_pool3d
from impl.nn.functional._max_pools import max_unpool1d as max_unpool1d
from impl.nn.functional._max_pools import max_unpool2d as max_unpool2d
from impl.nn.functional._max_pools import max_unpool3d as max_unpool3d
from impl.nn.functional._padding import pad as pad
from impl.nn.functional._pools import adaptive_avg_pool1d as adaptive_avg_pool1d
from impl.nn.functional._pools import adaptive_avg_pool2d as adaptive_avg_pool2d
from impl.nn.functional._pools import adaptive_avg_pool3d as adaptive_avg_pool3d
from impl.nn.functional._pools import avg_pool1d as avg_pool1d
from impl.nn.functional._pools import avg_pool2d as avg_pool2d
from impl.nn.functional._pools import avg_pool3d as avg_pool3d
from impl.nn.functional._pools import lp_pool1d as lp_pool1d
from impl.nn.functional._pools import lp_pool2d as lp_pool2d
from impl.nn.functional._resampling import interpolate as interpolate
from impl.nn.functional._sampling import affine_grid as affine_grid
from impl.nn.functional._sampling import grid_sample as grid_sample

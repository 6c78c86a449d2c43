"""The ops of ``torch.nn.functional``. A file holds one op, or the ops of 1, 2 and 3 dimensions."""

from impl.nn.functional.adaptive_avg_pool import adaptive_avg_pool1d as adaptive_avg_pool1d
from impl.nn.functional.adaptive_avg_pool import adaptive_avg_pool2d as adaptive_avg_pool2d
from impl.nn.functional.adaptive_avg_pool import adaptive_avg_pool3d as adaptive_avg_pool3d
from impl.nn.functional.adaptive_max_pool import adaptive_max_pool1d as adaptive_max_pool1d
from impl.nn.functional.adaptive_max_pool import adaptive_max_pool2d as adaptive_max_pool2d
from impl.nn.functional.adaptive_max_pool import adaptive_max_pool3d as adaptive_max_pool3d
from impl.nn.functional.affine_grid import affine_grid as affine_grid
from impl.nn.functional._pools import avg_pool1d as avg_pool1d
from impl.nn.functional._pools import avg_pool2d as avg_pool2d
from impl.nn.functional._pools import avg_pool3d as avg_pool3d
from impl.nn.functional.conv import conv1d as conv1d
from impl.nn.functional.conv import conv2d as conv2d
from impl.nn.functional.conv import conv3d as conv3d
from impl.nn.functional.conv_transpose import conv_transpose1d as conv_transpose1d
from impl.nn.functional.conv_transpose import conv_transpose2d as conv_transpose2d
from impl.nn.functional.conv_transpose import conv_transpose3d as conv_transpose3d
from impl.nn.functional.cross_entropy import cross_entropy as cross_entropy
from impl.nn.functional.ctc_loss import ctc_loss as ctc_loss
from impl.nn.functional.embedding import embedding as embedding
from impl.nn.functional._embeddings import embedding_bag as embedding_bag
from impl.nn.functional._max_pools import fractional_max_pool2d as fractional_max_pool2d
from impl.nn.functional._max_pools import fractional_max_pool3d as fractional_max_pool3d
from impl.nn.functional.grid_sample import grid_sample as grid_sample
from impl.nn.functional.interpolate import interpolate as interpolate
from impl.nn.functional.lp_pool import lp_pool1d as lp_pool1d
from impl.nn.functional.lp_pool import lp_pool2d as lp_pool2d
from impl.nn.functional.max_pool import max_pool1d as max_pool1d
from impl.nn.functional.max_pool import max_pool2d as max_pool2d
from impl.nn.functional.max_pool import max_pool3d as max_pool3d
from impl.nn.functional.max_unpool import max_unpool1d as max_unpool1d
from impl.nn.functional.max_unpool import max_unpool2d as max_unpool2d
from impl.nn.functional.max_unpool import max_unpool3d as max_unpool3d
from impl.nn.functional.nll_loss import nll_loss as nll_loss
from impl.nn.functional.pad import pad as pad
from impl.nn.functional.scaled_dot_product_attention import (
    scaled_dot_product_attention as scaled_dot_product_attention,
)

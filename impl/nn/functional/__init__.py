"""The ops of ``torch.nn.functional``: a file each, or one for those of one kind."""

from impl.nn.functional.embedding import embedding as embedding
from impl.nn.functional.embedding_bag import embedding_bag as embedding_bag
from impl.nn.functional.max_unpool import max_unpool1d as max_unpool1d
from impl.nn.functional.max_unpool import max_unpool2d as max_unpool2d
from impl.nn.functional.max_unpool import max_unpool3d as max_unpool3d

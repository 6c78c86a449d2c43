"""Ops of ``torch.nn``: recurrent nets, and in ``functional`` the ops of ``torch.nn.functional``.

``_rnn`` checks the arguments of recurrent nets, and ``_recurrent`` computes their layers. Elements
are dropped by ``_dropout``, also for attention.
"""

from impl.nn import functional as functional
from impl.nn._rnn import gru as gru
from impl.nn._rnn import lstm as lstm
from impl.nn._rnn import rnn_relu as rnn_relu
from impl.nn._rnn import rnn_tanh as rnn_tanh

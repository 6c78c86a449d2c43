"""Ops of ``torch.nn``: recurrent nets, and in ``functional`` the ops of ``torch.nn.functional``."""

from impl.nn import functional as functional
from impl.nn.rnn import gru as gru
from impl.nn.rnn import lstm as lstm
from impl.nn.rnn import rnn_relu as rnn_relu
from impl.nn.rnn import rnn_tanh as rnn_tanh

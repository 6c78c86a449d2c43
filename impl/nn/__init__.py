"""What neural networks are made of."""

from impl.nn import functional as functional
from impl.nn.rnn import gru as gru
from impl.nn.rnn import lstm as lstm
from impl.nn.rnn import rnn_relu as rnn_relu
from impl.nn.rnn import rnn_tanh as rnn_tanh

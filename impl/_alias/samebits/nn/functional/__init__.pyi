from impl.nn.functional import *

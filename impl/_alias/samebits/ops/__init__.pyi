from impl.ops import *

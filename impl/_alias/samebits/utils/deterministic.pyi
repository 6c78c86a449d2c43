from impl.utils.deterministic import *

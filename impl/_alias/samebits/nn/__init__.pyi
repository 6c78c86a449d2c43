from impl.nn import *

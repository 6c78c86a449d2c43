from impl.accumulator import *

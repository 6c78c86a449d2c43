from impl.quantized import *

from impl.utils.data import *

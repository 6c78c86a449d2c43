from impl.backends import *

from impl.random import *

from impl.backends.cudnn import *

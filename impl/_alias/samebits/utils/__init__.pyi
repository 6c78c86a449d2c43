from impl.utils import *

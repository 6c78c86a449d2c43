from impl.digests import *

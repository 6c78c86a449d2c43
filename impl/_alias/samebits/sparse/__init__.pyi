from impl.sparse import *

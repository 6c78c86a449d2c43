from impl.testing import *

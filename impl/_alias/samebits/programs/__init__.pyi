from impl.programs import *

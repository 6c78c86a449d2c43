from impl.diagnosis import *

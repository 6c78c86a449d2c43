"""The evidence of the guarantee ``portable``: its programs, their lowered code and digests."""

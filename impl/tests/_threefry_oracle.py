"""Threefry-2x32 by NumPy, to compare the keys of ``impl`` with."""

import numpy as np


def threefry_by_numpy(key, block):
    """The two words of Threefry-2x32 with 20 rounds, as its paper defines it, on uint32 that wrap.

    Args:
        key: A number from 0 to 2**64 - 1.
        block: A number from 0 to 2**64 - 1.
    """
    key, x = (np.array([number >> 32, number & 0xFFFFFFFF], np.uint32) for number in (key, block))
    keys = np.append(key, key[0] ^ key[1] ^ np.uint32(0x1BD11BDA))
    x = x + key
    for i in range(20):
        turn = np.uint32((13, 15, 26, 6, 17, 29, 16, 24)[i % 8])
        x[:1] += x[1:]
        x[1:] = (x[1:] << turn | x[1:] >> (np.uint32(32) - turn)) ^ x[:1]
        if i % 4 == 3:
            n = i // 4 + 1
            x += keys[[n % 3, (n + 1) % 3]] + np.array([0, n], np.uint32)
    return x.tolist()

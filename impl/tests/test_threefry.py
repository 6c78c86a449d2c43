"""Threefry-2x32, against its known answers and an oracle."""

import pytest

from impl._threefry import threefry2x32
from impl.tests._threefry_oracle import threefry_by_numpy


@pytest.mark.parametrize(
    ("key", "block", "expected"),
    [  # The known answers that come with Random123.
        (0, 0, 0x6B200159_99BA4EFE),
        (2**64 - 1, 2**64 - 1, 0x1CB996FC_BB002BE7),
        (0x13198A2E_03707344, 0x243F6A88_85A308D3, 0xC4923A9C_483DF7A0),
    ],
)
def test_threefry_has_its_known_answers(key, block, expected):
    assert threefry2x32(key, block) == expected
    assert threefry_by_numpy(key, block) == [expected >> 32, expected & 0xFFFFFFFF]

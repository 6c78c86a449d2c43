"""The orders as a few lines of NumPy each, so that tests can compare bits.

An oracle has the name of its order in ``orders.toml``. It is written to be read, not to be fast.
"""

from spec.oracles.nearest import flushed as flushed
from spec.oracles.nearest import nearest as nearest
from spec.oracles.nearest import nearest_convolution as nearest_convolution
from spec.oracles.nearest import nearest_product as nearest_product
from spec.oracles.nearest import nearest_running as nearest_running
from spec.oracles.nearest import nearest_scatter as nearest_scatter
from spec.oracles.nearest import rounded_once as rounded_once
from spec.oracles.rotations import rotations as rotations
from spec.oracles.rotations import sum_of_halves as sum_of_halves
from spec.oracles.scans import doubling as doubling
from spec.oracles.scatters import last_write as last_write
from spec.oracles.scatters import source as source
from spec.oracles.selections import lowest_index as lowest_index
from spec.oracles.selections import most_frequent as most_frequent
from spec.oracles.selections import stable_sort as stable_sort
from spec.oracles.transforms import transform as transform

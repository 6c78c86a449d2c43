"""Primitives that JAX writes with other primitives, for any platform: those have their own records.

JAX has faster lowerings of some of them for one platform, with other bits.
"""

from __future__ import annotations

from impl._portable.rule import rule

for _name in (
    *("bcoo_dot_general", "bcoo_dot_general_sampled", "bcoo_extract", "bcoo_fromdense"),
    *("bcoo_sort_indices", "bcoo_spdot_general", "bcoo_sum_duplicates", "bcoo_todense"),
    *("bcoo_transpose", "bcsr_dot_general", "bcsr_extract", "bcsr_fromdense", "bcsr_todense"),
    *("coo_fromdense", "coo_matmat", "coo_matvec", "coo_todense", "csr_fromdense", "csr_matmat"),
    *("csr_matvec", "csr_todense", "polynomial", "qr", "ragged_dot_general", "random_gamma"),
    "todense",
):
    rule(_name, by_jax="written")

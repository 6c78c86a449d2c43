"""``impl.first_difference`` and ``impl.testing.assert_invariant``: runs compared by equations.

``marks`` plans which equations get a digest, and evaluates a program with these. ``comparison``
saves the digests of a run and finds the first that differs. ``first_difference`` runs the two
programs. ``invariance`` changes the arguments of a program, and ``resized`` finds the equation.
"""

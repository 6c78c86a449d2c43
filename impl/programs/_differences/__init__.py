"""``impl.first_difference``: two runs of a program, compared equation by equation.

``first_difference`` is the function. ``marks`` plans which equations get a digest, ``digests``
evaluates them, ``marked`` runs the program with them, ``comparison`` finds the first that differs,
``recording`` saves a run, and ``progress`` tells the user about the steps.
"""

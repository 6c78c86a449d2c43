"""``impl.first_difference``: two runs of a program, compared equation by equation."""

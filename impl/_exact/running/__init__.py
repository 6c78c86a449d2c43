"""Running products, and running logarithms of sums of exponentials."""

"""Running products (``cumprod``), and logarithms of sums of exponentials (``cumlogsumexp``)."""

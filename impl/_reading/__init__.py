"""What a JAX program says of itself: equations, known values, lines of source, compiled text."""

"""Plain XLA lowerings of the core primitives' paths, and what they share."""

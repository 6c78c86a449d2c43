"""The records of primitives, a module for each group: importing this package registers them."""

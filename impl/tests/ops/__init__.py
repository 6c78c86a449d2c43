"""The tests of ``impl.ops`` and ``impl.sparse``, in one file for each op or family of ops."""

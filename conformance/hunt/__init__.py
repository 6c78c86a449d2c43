"""The hunt: strange programs, drawn by a tool, until one shows a fault, which it then shrinks.

``python -m conformance hunt`` draws programs over the primitives that the guarantee ``portable``
computes (``grammar``, ``tokens``), and settings to run them in (``settings``). It writes each as
Python (``source``), has long-lived processes run it (``worker``, ``crew``), and asks every oracle
(``checks``, ``oracles``). A finding is shrunk (``shrink``), compared with known faults, and written
as a file that runs alone (``files``). ``memory`` has these faults, and counts the pairs that were
tried. ``releases`` compares two releases of JAX by the same workers.

Csmith (Yang, Chen, Eide and Regehr 2011) and NNSmith (Liu and others 2023) draw programs so, and
shrinking is delta debugging (Zeller and Hildebrandt 2002). The same bits in two settings are
metamorphic testing (Chen, Cheung and Yiu 1998), which needs no expected value.
"""

"""``impl.audit`` and ``impl.testing.assert_deterministic``.

``audit`` judges each equation, ``report`` and ``report_text`` hold and print the findings,
``notes`` adds the notes of the guarantee ``portable``, and ``assertion`` audits and then runs a
program.
"""

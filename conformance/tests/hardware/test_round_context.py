"""The context of a round: the words for its check, and the other work."""

import contextlib

from conformance.hardware.round_context import RoundContext


class Work:
    """Stands in for the other work."""

    def __init__(self):
        self.is_open = False

    def __str__(self):
        return "counting"

    @contextlib.contextmanager
    def scope(self):
        self.is_open = True
        yield
        self.is_open = False


def test_the_first_round_without_other_work_needs_no_words():
    assert (RoundContext().check_suffix, RoundContext().other_work) == ("", "")
    with RoundContext().under_load():
        pass


def test_a_later_round_and_its_other_work_are_named():
    work = Work()
    context = RoundContext(3, work)
    with context.under_load():
        assert work.is_open
        assert (context.check_suffix, context.other_work) == (" in fresh process 3", "counting")
    assert not work.is_open

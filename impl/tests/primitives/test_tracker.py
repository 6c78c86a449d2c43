"""The name of the tracker, from the metadata of the distribution."""

from email.message import Message
from importlib import metadata

import pytest

from impl._primitives import _tracker


@pytest.fixture
def uncached():
    _tracker.tracker.cache_clear()
    yield
    _tracker.tracker.cache_clear()


def entries(*urls):
    message = Message()
    for url in urls:
        message["Project-URL"] = url
    return lambda _: message


@pytest.mark.usefixtures("uncached")
@pytest.mark.parametrize(
    ("urls", "name"),
    [
        ((), "the tracker of samebits"),
        (("Home, https://a.example",), "the tracker of samebits"),
        (
            ("Home, https://a.example", "Issues, https://a.example/issues"),
            "the tracker of samebits, https://a.example/issues",
        ),
    ],
)
def test_the_tracker_is_the_address_of_issues(monkeypatch, urls, name):
    monkeypatch.setattr(metadata, "metadata", entries(*urls))
    assert _tracker.tracker() == name


@pytest.mark.usefixtures("uncached")
def test_a_checkout_that_is_not_installed_has_a_tracker_without_address(monkeypatch):
    def absent(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "metadata", absent)
    assert _tracker.tracker() == "the tracker of samebits"

"""Fixtures for tests that open the built site in Chromium, from a server and as files.

They need the group `browser` of pyproject.toml and a Chromium of the system, and are skipped where
one of the two is absent. With ``CI=true`` that is a failure.
"""

import functools
import http.server
import importlib.util
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

HTML = Path(__file__).parents[2] / "_build" / "html"
#: The names of Chromium and of Chrome.
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
DESKTOP, PHONE = 1440, 390
Scheme = Literal["light", "dark"]


def chromium_file() -> str | None:
    """Returns the file of the system's Chromium; None if there is none."""
    return next(filter(None, map(shutil.which, CHROMIUM)), None)


def what_is_absent() -> str | None:
    """Returns why no browser can be driven; None if one can be."""
    packages = ("playwright", "axe_playwright_python")
    absent = [name for name in packages if importlib.util.find_spec(name) is None]
    if absent:
        return f"no package {' or '.join(absent)}"
    return None if chromium_file() else f"none of {', '.join(CHROMIUM)} is installed"


@pytest.fixture(scope="session")
def browser() -> Iterator["Browser"]:
    """Returns a browser, or skips the test."""
    absent = what_is_absent()
    if absent and os.environ.get("CI") == "true":
        pytest.fail(f"the site was not opened in a browser: {absent}")
    if absent:
        pytest.skip(absent)
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - absent elsewhere.

    with sync_playwright() as playwright:
        # Chromium has no sandbox for the user of a container, who is often root.
        started = playwright.chromium.launch(executable_path=chromium_file(), args=["--no-sandbox"])
        yield started
        started.close()


class _Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """Prints nothing: a browser that leaves a page stops reading its files."""


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Prints nothing."""


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """Returns the address of a server of the site."""
    handler = functools.partial(_Quiet, directory=HTML)
    with _Server(("127.0.0.1", 0), handler) as serving:
        thread = threading.Thread(target=serving.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{serving.server_port}"
        serving.shutdown()
        thread.join()


@pytest.fixture(params=["served", "file"])
def site(request) -> str:
    """Returns the address of the site's root, from a server and as files."""
    return request.getfixturevalue("server") if request.param == "served" else HTML.as_uri()


class Tab:
    """A page of the browser that tests use one after the other, so that its files are kept.

    It complains of errors on the console, of uncaught errors of scripts, and of absent files.
    """

    def __init__(self, browser: "Browser", **options: Any) -> None:
        self.complaints: list[str] = []
        self.page: Page = browser.new_context(**options).new_page()
        self.page.set_default_timeout(10_000)
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("requestfailed", self._request)

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _request(self, request: Any) -> None:
        # Leaving a page ends the loading of its files.
        if request.failure != "net::ERR_ABORTED":
            self.complaints.append(f"{request.url}: {request.failure}")

    def show(self, address: str, width: int, scheme: Scheme) -> None:
        """Opens an address."""
        self.page.set_viewport_size({"width": width, "height": 844})
        self.page.emulate_media(color_scheme=scheme, media="screen")
        self.page.goto(address)

    def left(self) -> list[str]:
        """Forgets what the pages have stored, leaves them, and returns their complaints."""
        self.page.evaluate("localStorage.clear()")
        self.page.goto("about:blank")
        complaints, self.complaints = self.complaints, []
        return complaints


@pytest.fixture(scope="session")
def tab(browser) -> Callable[..., Tab]:
    """Returns a function that makes the tab of a browser with some options, once."""
    return functools.cache(functools.partial(Tab, browser))


@pytest.fixture
def visit(tab) -> Iterator[Callable[..., "Page"]]:
    """Returns a function that opens an address; in the end no page may have complained."""
    visited: set[Tab] = set()

    def opened(
        address: str, width: int = DESKTOP, scheme: Scheme = "light", **options: Any
    ) -> "Page":
        chosen = tab(**options)
        visited.add(chosen)
        chosen.show(address, width, scheme)
        return chosen.page

    yield opened
    assert [text for each in visited for text in each.left()] == []

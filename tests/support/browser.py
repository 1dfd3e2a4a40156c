"""Pages in a headless Chromium, by Playwright.

    with open_browser() as browser, open_page(browser, path) as page:
        page.evaluate("document.title")
        page.keyboard.press("Enter")

Playwright would download a browser of its own; these tests take the system's,
and are skipped where there is none.
"""

import contextlib
import pathlib
import shutil

import pytest
from playwright import sync_api

EXECUTABLE = next(
    filter(
        None,
        map(shutil.which, ("chromium", "chromium-browser", "google-chrome")),
    ),
    None,
)
# In milliseconds: other tests may keep all cores busy.
_TIMEOUT = 300_000

needs_chromium = pytest.mark.skipif(
    EXECUTABLE is None,
    reason="no Chromium; on Debian or Ubuntu: apt install chromium",
)


@contextlib.contextmanager
def open_browser():
    """Starts the system's Chromium."""
    with (
        sync_api.sync_playwright() as playwright,
        contextlib.closing(
            playwright.chromium.launch(
                executable_path=EXECUTABLE,
                args=["--disable-gpu", "--disable-quic"],
                timeout=_TIMEOUT,
            )
        ) as browser,
    ):
        yield browser


@contextlib.contextmanager
def open_page(browser, path, *, width=1280, height=900):
    """Loads a file and waits until all its images are there.

    Yields a page of Playwright with two attributes more: `requests`, the
    addresses that it has asked for, and `messages`, what it wrote to the
    console and its uncaught errors.
    """
    context = browser.new_context(
        viewport={"width": width, "height": height}, is_mobile=width < 600
    )
    context.set_default_timeout(_TIMEOUT)
    with contextlib.closing(context):
        page = context.new_page()
        page.requests, page.messages = [], []
        page.on("request", lambda request: page.requests.append(request.url))
        page.on("console", lambda message: page.messages.append(message.text))
        page.on("pageerror", lambda error: page.messages.append(str(error)))
        page.goto(pathlib.Path(path).resolve().as_uri(), wait_until="load")
        yield page

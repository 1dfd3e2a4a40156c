"""A headless Chromium that tests can drive, without a package of its own.

    with Browser() as browser:
        browser.open(path)
        browser.evaluate("document.title")
        browser.press("Enter")

Speaks Chromium's own protocol over two pipes: a JSON object a message, each
ended by a zero byte.
"""

import base64
import contextlib
import fcntl
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time

EXECUTABLE = next(
    filter(
        None,
        map(shutil.which, ("chromium", "chromium-browser", "google-chrome")),
    ),
    None,
)
_OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
_TIMEOUT = 300
# Name, virtual key code and, of keys that write, the text.
_KEYS = {
    "Enter": (13, "\r"),
    "Space": (32, " "),
    "Tab": (9, ""),
    "Escape": (27, ""),
    "ArrowLeft": (37, ""),
    "ArrowRight": (39, ""),
}


class Browser:
    """One page in a browser of its own, with all that it reports.

    Attributes:
        requests: The addresses that the page has asked for.
        messages: What it wrote to the console, and its uncaught errors.
    """

    def __init__(self, width=1280, height=900):
        self.requests, self.messages = [], []
        self._size = width, height
        self._stack = contextlib.ExitStack()
        self._buffer = b""
        self._last = 0
        self._session = None

    def __enter__(self):
        folder = self._stack.enter_context(
            tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        )
        theirs_in, self._write = self._pipe()
        self._read, theirs_out = self._pipe()
        # Chromium reads from descriptor 3 and writes to 4.
        script = f'exec "$@" 3</dev/fd/{theirs_in} 4>/dev/fd/{theirs_out}'
        self._process = subprocess.Popen(
            ["sh", "-c", script, "sh", EXECUTABLE, *_OPTIONS]
            + [f"--user-data-dir={folder}", "about:blank"],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._stack.callback(self._process.wait, 20)
        self._stack.callback(self._process.terminate)
        os.close(theirs_in)
        os.close(theirs_out)
        target = self.call("Target.createTarget", url="about:blank")
        self._session = self.call(
            "Target.attachToTarget", flatten=True, **target
        )["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.resize(*self._size)
        return self

    def __exit__(self, *error):
        self._stack.close()

    def _pipe(self):
        ends = []
        for end in os.pipe():
            # Above the two numbers that Chromium uses.
            ends.append(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10))
            os.close(end)
            self._stack.callback(_close, ends[-1])
        return ends

    def call(self, method, **parameters):
        """Sends a command and returns its result."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + _TIMEOUT
        while True:
            answer = self._receive(deadline)
            if answer.get("id") == self._last:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self._note(answer)

    def _receive(self, deadline):
        while b"\0" not in self._buffer:
            ready, _, _ = select.select(
                [self._read], [], [], max(0, deadline - time.monotonic())
            )
            part = os.read(self._read, 1 << 20) if ready else b""
            if not part:
                raise TimeoutError("Chromium does not answer.")
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def _note(self, event):
        values = event.get("params", {})
        match event.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(values["request"]["url"])
            case "Runtime.consoleAPICalled" | "Runtime.exceptionThrown":
                self.messages.append(values)
            case "Log.entryAdded":
                self.messages.append(values["entry"])

    def open(self, path):
        """Loads a file and waits until all its images are there."""
        self.call("Page.navigate", url=pathlib.Path(path).resolve().as_uri())
        self.evaluate(
            "new Promise(done => { const wait = () => "
            "document.readyState === 'complete' && "
            "location.protocol === 'file:' ? done() : setTimeout(wait, 20); "
            "wait(); })"
        )

    def evaluate(self, expression):
        """The value of a JavaScript expression, awaited."""
        result = self.call(
            "Runtime.evaluate",
            expression=expression,
            awaitPromise=True,
            returnByValue=True,
        )
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def press(self, key):
        """Presses and releases a key, as a keyboard does."""
        code, text = _KEYS[key]
        event = {
            "key": text if key == "Space" else key,
            "code": key,
            "windowsVirtualKeyCode": code,
        }
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **event)
        self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def click(self, selector):
        """Scrolls to the element and clicks on its middle with the mouse."""
        x, y = self.evaluate(
            f"(() => {{ const e = document.querySelector({selector!r}); "
            "e.scrollIntoView({block: 'center', behavior: 'instant'}); "
            "const r = e.getBoundingClientRect(); "
            "return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        event = {"x": x, "y": y, "button": "left", "clickCount": 1}
        self.call("Input.dispatchMouseEvent", type="mousePressed", **event)
        self.call("Input.dispatchMouseEvent", type="mouseReleased", **event)

    def resize(self, width, height, scale=1):
        """Gives the window a size, in CSS pixels."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=width < 600,
        )

    def scheme(self, name):
        """Asks for "light" or "dark"."""
        feature = {"name": "prefers-color-scheme", "value": name}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def screenshot(self, path, whole=True):
        """Writes a PNG of the page, or of what the window shows of it."""
        result = self.call(
            "Page.captureScreenshot", captureBeyondViewport=whole
        )
        pathlib.Path(path).write_bytes(base64.b64decode(result["data"]))

    def pdf(self, path):
        """Prints the page on A4."""
        result = self.call(
            "Page.printToPDF",
            paperWidth=8.27,
            paperHeight=11.69,
            printBackground=True,
        )
        pathlib.Path(path).write_bytes(base64.b64decode(result["data"]))


def _close(descriptor):
    with contextlib.suppress(OSError):
        os.close(descriptor)

"""A headless Chromium, spoken to over two pipes: the DevTools protocol without a library."""

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE_S = 60


def installed() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Chromium:
    """One browser with one tab. `events` holds what it reported, `complaints` what its console and its policies said."""

    def __init__(self, process: "subprocess.Popen[bytes]", to: int, back: int) -> None:
        self._process, self._to, self._back = process, to, back
        self._numbers = itertools.count(1)
        self._rest = b""
        self._session: str | None = None
        self._scripts = True
        self.events: list[dict[str, Any]] = []

    @classmethod
    @contextmanager
    def started(cls, folder: Path) -> Iterator[Self]:
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        program = installed()
        assert program
        words = [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run"]
        words += ["--remote-debugging-pipe", f"--user-data-dir={folder}", "about:blank"]
        # Chromium reads from 3 and writes to 4; a shell moves them there, because a fork with code of ours in it is not safe with threads.
        line = f'exec 3<&{theirs_in} 4>&{theirs_out}; exec "$@"'
        process = subprocess.Popen(
            ["bash", "-c", line, "bash", *words], pass_fds=(theirs_in, theirs_out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(theirs_in)
        os.close(theirs_out)
        browser = cls(process, ours_out, ours_in)
        try:
            [tab] = [t for t in browser.ask("Target.getTargets")["targetInfos"] if t["type"] == "page"]
            browser._session = browser.ask("Target.attachToTarget", targetId=tab["targetId"], flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Network", "Log", "Accessibility", "Audits"):
                browser.ask(f"{domain}.enable")
            yield browser
        finally:
            process.terminate()
            process.wait(PATIENCE_S)
            os.close(ours_out)
            os.close(ours_in)

    def ask(self, method: str, **params: Any) -> Any:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params, **({"sessionId": self._session} if self._session else {})}
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def _next(self) -> dict[str, Any]:
        until = time.monotonic() + PATIENCE_S
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._back], [], [], max(0, until - time.monotonic()))
            assert ready, "Chromium does not answer"
            read = os.read(self._back, 1 << 16)
            assert read, "Chromium ended"
            self._rest += read
        message, _, self._rest = self._rest.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer

    def open(self, page: Path | str) -> None:
        """Open a file, or an address."""
        self.events.clear()
        self.ask("Page.navigate", url=page if isinstance(page, str) else page.as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())
        if self._scripts:
            self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def run(self, script: str) -> Any:
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        code = {"Tab": 9, "Enter": 13, "Escape": 27}.get(key, 0)
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        self.ask("Input.dispatchKeyEvent", type="keyDown", key=key, text=text, windowsVirtualKeyCode=code)
        self.ask("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def see(self, *, width: int = 1200, dark: bool = False, script: bool = True) -> None:
        """Look through a window of this width, in these colours, with or without scripts; the next page is opened so."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.ask("Emulation.setScriptExecutionDisabled", value=not script)
        self._scripts = script

    def picture(self, *, whole: bool = True) -> bytes:
        """The whole page, or what the window shows of it."""
        return base64.b64decode(self.ask("Page.captureScreenshot", captureBeyondViewport=whole)["data"])

    def paper(self) -> bytes:
        return base64.b64decode(self.ask("Page.printToPDF", preferCSSPageSize=True, printBackground=True)["data"])

    @property
    def requests(self) -> list[str]:
        return [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]

    @property
    def complaints(self) -> list[Any]:
        return [e for e in self.events if e.get("method") in {"Log.entryAdded", "Runtime.exceptionThrown", "Audits.issueAdded"}]

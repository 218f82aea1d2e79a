"""Chromium without a window, told what to do over its own DevTools protocol."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

_MOST_BYTES = 1 << 26  # a screenshot comes as one message
_WAIT_SECONDS = 60.0


class Tab:
    """One page.

    Attributes
    ----------
    complaints : list of str
        Errors and warnings of the page and of the browser about it, so far; each request for an address too.
    """

    def __init__(self, socket: WebSocketClientConnection, loop: asyncio.AbstractEventLoop) -> None:
        self._socket, self._loop, self._numbers = socket, loop, itertools.count(1)
        self.complaints: list[str] = []
        self.addresses: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility", "DOM"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send one command and wait for its answer; events on the way are kept."""
        number = next(self._numbers)
        self._loop.run_until_complete(self._sent({"id": number, "method": method, "params": parameters}))
        while True:
            answer = self._read()
            if answer.get("id") == number:
                assert "error" not in answer, answer["error"]
                return dict(answer["result"])
            self._note(answer)

    def wait_for(self, event: str) -> None:
        """Read until the event comes."""
        while True:
            answer = self._read()
            self._note(answer)
            if answer.get("method") == event:
                return

    async def _sent(self, command: dict[str, Any]) -> None:
        await self._socket.write_message(json.dumps(command))

    async def _received(self) -> str | bytes | None:
        return await asyncio.wait_for(self._socket.read_message(), _WAIT_SECONDS)

    def _read(self) -> dict[str, Any]:
        message = self._loop.run_until_complete(self._received())
        assert message is not None, "the browser closed the connection"
        return dict(json.loads(message))

    def _note(self, answer: dict[str, Any]) -> None:
        method, told = answer.get("method"), answer.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.complaints.append(str(told["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning", "assert"):
            self.complaints.append(str(told["args"]))
        elif method == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.complaints.append(told["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.addresses.append(told["request"]["url"])

    def open(self, path: Path, *, width: int, height: int, dark: bool) -> None:
        """Load a file in a window of this size, in light or dark."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=path.as_uri())
        self.wait_for("Page.loadEventFired")

    def value(self, expression: str) -> Any:
        """What an expression comes to on the page."""
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def press(self, key: str, code: int) -> None:
        """One key, down and up."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def tree(self) -> list[tuple[str, str]]:
        """Role and name of everything that an assistive technology is told of."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [
            (node.get("role", {}).get("value", ""), node.get("name", {}).get("value", ""))
            for node in nodes
            if not node.get("ignored")
        ]

    def picture(self, path: Path) -> None:
        """The whole page as PNG."""
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(found["data"]))


@contextmanager
def browser(profile: Path) -> Iterator[Tab]:
    """A tab of a Chromium of its own, with a new profile in `profile`; ended with the context."""
    program = shutil.which("chromium") or "chromium"
    command = [
        program, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
        "--disable-background-networking", "--disable-dev-shm-usage", "--remote-debugging-port=0",
        f"--user-data-dir={profile}", "about:blank",
    ]  # fmt: skip
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    loop = asyncio.new_event_loop()
    try:
        port, _ = _port(process, profile / "DevToolsActivePort")
        socket = loop.run_until_complete(_connected(port))
        yield Tab(socket, loop)
        loop.run_until_complete(_closed(socket))
    finally:
        process.terminate()
        process.wait(30)
        loop.run_until_complete(asyncio.sleep(0.1))
        loop.close()


def _port(process: subprocess.Popen[bytes], file: Path) -> tuple[int, str]:
    end = time.monotonic() + _WAIT_SECONDS
    while time.monotonic() < end:
        assert process.poll() is None, "the browser ended at once"
        if file.exists() and len(lines := file.read_text().splitlines()) == 2:
            return int(lines[0]), lines[1]
        time.sleep(0.05)
    raise AssertionError("the browser opened no port")


async def _closed(socket: WebSocketClientConnection) -> None:
    socket.close()
    await asyncio.sleep(0.1)


async def _connected(port: int) -> WebSocketClientConnection:
    from tornado.httpclient import AsyncHTTPClient

    listed = await AsyncHTTPClient().fetch(f"http://127.0.0.1:{port}/json/list")
    tab = next(entry for entry in json.loads(listed.body) if entry["type"] == "page")
    request = HTTPRequest(tab["webSocketDebuggerUrl"], connect_timeout=_WAIT_SECONDS)
    return await websocket_connect(request, max_message_size=_MOST_BYTES)

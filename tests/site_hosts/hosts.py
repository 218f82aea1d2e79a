"""Several hosts on one machine: network namespaces on a bridge that lies in a namespace of its own.

Nothing is added to the machine's own network; the addresses 10.77.0.x exist inside only.  What is started here is ended
here, by its process number, and only namespaces made here are removed.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from programs import needs

SCHEDULER = "10.77.0.1"
_ADDRESSES = {"sched": SCHEDULER, "client": "10.77.0.2", "w1": "10.77.0.11", "w2": "10.77.0.12"}


class Hosts:
    """The hosts sched, client, w1 and w2, each with a cable to one switch."""

    def __init__(self, logs: Path) -> None:
        self._prefix, self._logs = f"fastdp{os.getpid()}-", logs
        self._spaces: list[str] = []
        self._started: list[subprocess.Popen[Any]] = []

    def plug_in(self) -> None:
        self._add("switch")
        self._ip("link", "add", "br0", "type", "bridge", on="switch")
        self._ip("link", "set", "br0", "up", on="switch")
        for host, address in _ADDRESSES.items():
            self._add(host)
            peer = ["peer", "name", "eth0", "netns", self._prefix + host]
            self._ip("link", "add", host, "type", "veth", *peer, on="switch")
            self._ip("link", "set", host, "master", "br0", "up", on="switch")
            self._ip("addr", "add", f"{address}/24", "dev", "eth0", on=host)
            self._ip("link", "set", "eth0", "up", on=host)

    def cut(self, host: str) -> None:
        """Pull a cable: packets vanish, and nobody is told."""
        self._ip("link", "set", host, "down", on="switch")

    def run(self, host: str, command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
        """Start a command on a host, its output in pipes."""
        return self._popen(host, command, environment, subprocess.PIPE, subprocess.PIPE)

    def serve(self, host: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start a command on a host that runs to the end of the test, its output in a log file."""
        with (self._logs / f"{host}.log").open("ab") as log:
            self._popen(host, command, environment, log, log)

    def log(self, host: str) -> str:
        return (self._logs / f"{host}.log").read_text()

    def close(self) -> None:
        for process in self._started:
            process.kill()
            process.wait()
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
        for space in reversed(self._spaces):
            with suppress(subprocess.CalledProcessError):
                subprocess.run(["ip", "netns", "del", space], check=True, capture_output=True)

    def _popen(
        self, host: str, command: Sequence[str], environment: Mapping[str, str], out: Any, err: Any
    ) -> subprocess.Popen[str]:
        # `ip netns exec` becomes the command, so that its number is the one to end.
        process = subprocess.Popen(
            ["ip", "netns", "exec", self._prefix + host, *command],
            stdin=subprocess.DEVNULL, stdout=out, stderr=err, text=True, env={**os.environ, **environment},
        )  # fmt: skip
        self._started.append(process)
        return process

    def _add(self, host: str) -> None:
        space = self._prefix + host
        made = subprocess.run(["ip", "netns", "add", space], capture_output=True, text=True, check=False)
        if made.returncode != 0:
            pytest.skip(f"network namespaces are not permitted here: {made.stderr.strip()}")  # nothing to install
        self._spaces.append(space)
        self._ip("link", "set", "lo", "up", on=host)

    def _ip(self, *words: str, on: str) -> None:
        subprocess.run(["ip", "-n", self._prefix + on, *words], check=True, capture_output=True)


@contextmanager
def hosts(logs: Path) -> Iterator[Hosts]:
    """The hosts, plugged in; skipped or failed where they cannot be had."""
    needs("ip")
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    made = Hosts(logs)
    try:
        made.plug_in()
        yield made
    except subprocess.CalledProcessError as error:
        pytest.fail(f"{' '.join(error.cmd)}: {error.stderr}")
    finally:
        made.close()

"""Many processes charge one ledger while they are killed at random; prints one JSON document.

A process of its own: it forks, which only a process with a single thread may.
"""

from __future__ import annotations

import dataclasses
import json
import os
import random
import signal
import sys
import time
from multiprocessing import RawArray

from fastdp_dask.errors import BudgetError
from fastdp_dask.ledger import Ledger


def work(ledger: Ledger, writer: int, charges: int, epsilon: float, done: list[int], refused: list[int]) -> None:
    """Pay for the runs of one writer; after a restart a few of them again."""
    for number in range(max(0, done[writer] - 2), charges):
        try:
            ledger.charge(epsilon, 0, mechanism="test", run_id=f"{writer} {number}")
        except BudgetError:
            refused[writer] = number + 1
        done[writer] = number + 1


def main(path: str, writers: int, charges: int, epsilon: float, kills: int, own_lock_only: bool) -> None:
    ledger = Ledger(path)
    ledger._store = dataclasses.replace(ledger._store, own_lock_only=own_lock_only)
    done, refused = RawArray("i", writers), RawArray("i", writers)
    chance = random.Random(7)

    def start(writer: int) -> int:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                work(ledger, writer, charges, epsilon, done, refused)  # type: ignore[arg-type]
                code = 0
            finally:
                os._exit(code)
        return child

    running = {start(writer): writer for writer in range(writers)}
    killed = holding = 0
    codes = []
    lock = path + ".lock"
    while running:
        if killed < kills and sum(done) * (kills + 1) >= killed * writers * charges:
            victim = chance.choice(list(running))
            if killed % 2:  # every other time the one that holds the lock
                try:
                    with open(lock) as stream:
                        victim = int(json.load(stream)["pid"])
                except (OSError, ValueError):
                    continue
            if victim in running:
                os.kill(victim, signal.SIGKILL)
                killed += 1
                try:
                    with open(lock) as stream:
                        holding += int(json.load(stream)["pid"]) == victim
                except (OSError, ValueError):
                    pass
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            writer = running.pop(pid)
            if os.WIFSIGNALED(status):
                running[start(writer)] = writer
            else:
                codes.append(os.waitstatus_to_exitcode(status))
        else:
            time.sleep(0.002)
    print(json.dumps({"codes": codes, "killed": killed, "holding": holding, "refused": sum(map(bool, refused))}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5]), sys.argv[6] == "own")

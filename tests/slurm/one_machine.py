"""A real Slurm on this machine: munge, a controller and two node daemons, all under one folder and unprivileged ports.

Nothing is configured but what a container or a small virtual machine may lack: no cgroups, no accounting database.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

NODES = ("n1", "n2")
PROGRAMS = ("slurmctld", "slurmd", "sbatch", "munged", "munge")

_CONF = """
ClusterName=onemachine
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={socket},cred_expire=5
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SlurmdParameters=config_overrides
MpiDefault=none
MailProg=/bin/true
PropagateResourceLimits=NONE
ReturnToService=2
JobRequeue=1
KillWait=15
MinJobAge=900
SlurmctldTimeout=30
SlurmdTimeout=8
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=2
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool/%n
SlurmctldPidFile={root}/run/slurmctld.pid
SlurmdPidFile={root}/run/slurmd-%n.pid
SlurmctldLogFile={root}/log/slurmctld.log
SlurmdLogFile={root}/log/slurmd-%n.log
{nodes}
PartitionName=debug Nodes=ALL Default=YES DefaultTime=5 MaxTime=30 DefMemPerCPU=500 State=UP
"""


class OneMachineSlurm:
    """Two nodes of six processors each, as Slurm is told; started by `running`.

    Attributes
    ----------
    root : Path
        A folder with a short name (a Unix socket lies in it).
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.conf = root / "slurm.conf"
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self._ports = _free_ports(1 + len(NODES))

    @contextlib.contextmanager
    def running(self) -> Iterator[OneMachineSlurm]:
        """Start everything, wait until both nodes are idle, and end it with its jobs."""
        before = os.environ.get("SLURM_CONF")
        try:
            self._start()
            os.environ["SLURM_CONF"] = str(self.conf)
            self._await_nodes()
            yield self
        finally:
            self._stop()
            os.environ.pop("SLURM_CONF", None)
            if before is not None:
                os.environ["SLURM_CONF"] = before

    def ask(self, *words: str) -> str:
        """Standard output of one of Slurm's commands."""
        done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
        return done.stdout if done.returncode == 0 else ""

    def jobs(self) -> dict[str, tuple[str, str]]:
        """Name and state of every job that is waiting or running, by number."""
        lines = self.ask("squeue", "--noheader", "--format=%A %j %T").split("\n")
        return {number: (name, state) for number, name, state in (line.split() for line in lines if line.strip())}

    def facts(self, number: str) -> dict[str, str]:
        """What Slurm knows about a job, ended or not."""
        words = self.ask("scontrol", "show", "job", number).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def kill_node(self, name: str) -> None:
        """End a node's daemon as a crash of the node would; its processes live on, as behind a cut cable."""
        self._daemons[name].kill()
        self._daemons.pop(name).wait()

    def start_node(self, name: str) -> None:
        """Start a node's daemon again."""
        self._launch(name, "slurmd", "-D", "-f", str(self.conf), "-N", name)

    @contextlib.contextmanager
    def drained(self, *names: str) -> Iterator[None]:
        """Let these nodes take no further job."""
        nodes = f"NodeName={','.join(names)}"
        self.ask("scontrol", "update", nodes, "State=DRAIN", "Reason=test")
        try:
            yield
        finally:
            self.ask("scontrol", "update", nodes, "State=RESUME")

    def _cancel_all(self) -> None:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and (left := self.jobs()):
            self.ask("scancel", *left)
            time.sleep(0.3)

    def _start(self) -> None:
        for name in ("munge", "run", "log", "state", *(f"spool/{node}" for node in NODES)):
            (self.root / name).mkdir(parents=True, mode=0o755)
        for folder in (self.root, *self.root.glob("*")):
            folder.chmod(0o755)
        key = self.root / "munge" / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        sock = self.root / "munge" / "socket"
        self._launch(
            "munged", "munged", "--foreground", "--force", f"--key-file={key}", f"--socket={sock}",
            f"--seed-file={self.root / 'munge' / 'seed'}", f"--pid-file={self.root / 'run' / 'munged.pid'}",
            f"--log-file={self.root / 'log' / 'munged.log'}",
        )  # fmt: skip
        _until(lambda: sock.exists(), 10, "munged")
        host = socket.gethostname().split(".")[0]
        nodes = "\n".join(
            f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=6 RealMemory=16000 State=UNKNOWN"
            for name, port in zip(NODES, self._ports[1:], strict=True)
        )
        user = pwd.getpwuid(os.getuid()).pw_name
        self.conf.write_text(
            _CONF.format(host=host, port=self._ports[0], user=user, socket=sock, root=self.root, nodes=nodes)
        )
        self._launch("slurmctld", "slurmctld", "-D", "-f", str(self.conf))
        for name in NODES:
            self.start_node(name)

    def _launch(self, name: str, *words: str) -> None:
        search = os.environ["PATH"] + ":/usr/local/sbin:/usr/sbin:/sbin"
        program = shutil.which(words[0], path=search) or words[0]
        with (self.root / "log" / f"{name}.out").open("ab") as log:
            self._daemons[name] = subprocess.Popen(
                [program, *words[1:]], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, "SLURM_CONF": str(self.conf), "PATH": search},
            )  # fmt: skip

    def _await_nodes(self) -> None:
        def usable() -> bool:
            states = self.ask("sinfo", "--noheader", "-N", "--format=%N %T").split("\n")
            return sum(line.endswith(("idle", "mixed", "allocated")) for line in map(str.strip, states)) == len(NODES)

        _until(usable, 40, "the nodes")

    def _stop(self) -> None:
        if "slurmctld" in self._daemons and self.conf.exists():
            with contextlib.suppress(Exception):
                self._cancel_all()
        for name in reversed(list(self._daemons)):
            daemon = self._daemons.pop(name)
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _until(true: object, seconds: float, what: str) -> None:
    assert callable(true)
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not ready within {seconds:g} s")
        time.sleep(0.1)

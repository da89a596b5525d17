"""Gives the number of a process that asks the helper to another process, while the helper loads programs for the first.

Run as the first process of a PID namespace of its own: PROGRAM GROUP. Prints where the second process was seen."""

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NOBODY = 65534


def hierarchy():
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, point, kind = line.split()[:3]
        if kind == "cgroup2":
            return point
    raise SystemExit("no cgroup2")


def wait_for(what, done, patience_s=60):
    end = time.monotonic() + patience_s
    while not (result := done()):
        if time.monotonic() > end:
            raise SystemExit(f"in vain: {what}")
        time.sleep(0.002)
    return result


def enter(cgroup, pid="0"):
    Path(f"{cgroup}/cgroup.procs").write_text(str(pid))


def ask(place, cgroup):
    """Becomes an ordinary user in that cgroup, who asks and waits."""
    enter(cgroup)
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    stream = socket.socket(socket.AF_UNIX)
    stream.connect(place)
    request = {"version": 1, "law": "ledbat:target=7654us", "dscp": None, "receive": None, "what": "x"}
    stream.sendall(json.dumps(request).encode() + b"\n")
    time.sleep(600)


def fork(child):
    pid = os.fork()
    if pid == 0:
        # Nobody is left behind.
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        child()
        os._exit(0)
    return pid


def again(pid):
    """A process with a number that was just given up: the kernel counts on from the last that it gave."""
    for _ in range(200):
        Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1))
        new = fork(lambda: time.sleep(600))
        if new == pid:
            return
        os.kill(new, signal.SIGKILL)
        os.waitpid(new, 0)
    raise SystemExit(f"no process got the number {pid}")


def of(pid):
    lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    return next(line[3:] for line in lines if line.startswith("0::"))


def main():
    program, group = sys.argv[1:]
    place = tempfile.mkdtemp()
    Path(place).chmod(0o755)
    asker, victim = (tempfile.mkdtemp(prefix=f"leeway-test-{who}-", dir=hierarchy()) for who in ("asker", "victim"))

    def made():
        return [one.name for one in Path(asker).iterdir() if one.name.startswith("leeway-run-")]

    helper = subprocess.Popen([program, "helper", "--socket", f"{place}/s", "--group", group])
    try:
        wait_for("the helper listens", lambda: Path(f"{place}/s").exists())
        Path(f"{place}/s").chmod(0o666)
        pid = fork(lambda: ask(f"{place}/s", asker))
        wait_for("a cgroup is made for who asks", made)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        again(pid)
        enter(victim, pid)
        seen = {of(pid)}
        wait_for("the helper gives up", lambda: seen.add(of(pid)) or not made())
        seen.add(of(pid))
        print(json.dumps(sorted(seen)))
    finally:
        helper.kill()
        for child in Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split():
            os.kill(int(child), signal.SIGKILL)
            os.waitpid(int(child), 0)
        for cgroup in (asker, victim):
            Path(cgroup).rmdir()


main()

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

NOBODY = 65534


def hierarchy():
    for line in open("/proc/self/mounts"):
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
    with open(f"{cgroup}/cgroup.procs", "w") as procs:
        procs.write(str(pid))


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
        with open("/proc/sys/kernel/ns_last_pid", "w") as last:
            last.write(str(pid - 1))
        new = fork(lambda: time.sleep(600))
        if new == pid:
            return
        os.kill(new, signal.SIGKILL)
        os.waitpid(new, 0)
    raise SystemExit(f"no process got the number {pid}")


def of(pid):
    lines = open(f"/proc/{pid}/cgroup").read().splitlines()
    return next(line[3:] for line in lines if line.startswith("0::"))


def main():
    program, group = sys.argv[1:]
    place = tempfile.mkdtemp()
    os.chmod(place, 0o755)
    asker, victim = (tempfile.mkdtemp(prefix=f"leeway-test-{who}-", dir=hierarchy()) for who in ("asker", "victim"))
    helper = subprocess.Popen([program, "helper", "--socket", f"{place}/s", "--group", group])
    try:
        wait_for("the helper listens", lambda: os.path.exists(f"{place}/s"))
        os.chmod(f"{place}/s", 0o666)
        pid = fork(lambda: ask(f"{place}/s", asker))
        made = lambda: [name for name in os.listdir(asker) if name.startswith("leeway-run-")]
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
        for child in open(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read().split():
            os.kill(int(child), signal.SIGKILL)
            os.waitpid(int(child), 0)
        for cgroup in (asker, victim):
            os.rmdir(cgroup)


main()

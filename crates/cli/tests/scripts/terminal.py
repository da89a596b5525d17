"""`leeway run` on a terminal: Ctrl-C, and job control of a shell. usage: terminal.py LEEWAY"""

import os
import pty
import select
import signal
import sys
import time

LEEWAY = sys.argv[1]

# A shell with stopped jobs does not end.
signal.alarm(300)


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, *command: str) -> None:
        self.pid, self.master = pty.fork()
        if not self.pid:
            for ignored in (signal.SIGINT, signal.SIGQUIT):  # by whoever runs the tests in the background
                signal.signal(ignored, signal.SIG_DFL)
            os.execvp(command[0], command)
        self.seen = ""

    def expect(self, text: str) -> None:
        deadline = time.monotonic() + 60
        while text not in self.seen:
            if not select.select([self.master], [], [], deadline - time.monotonic())[0]:
                sys.exit(f"no {text!r} in {self.seen!r}")
            try:
                self.seen += os.read(self.master, 4096).decode(errors="replace")
            except OSError:
                sys.exit(f"ended without {text!r}: {self.seen!r}")
        self.seen = self.seen.split(text, 1)[1]

    def repeat(self, typed: str, text: str) -> None:
        """Types it until the text comes: bash loses what is typed while the terminal goes to a job or comes back."""
        deadline = time.monotonic() + 60
        while text not in self.seen:
            if time.monotonic() > deadline:
                sys.exit(f"no {text!r} in {self.seen!r}")
            self.type(typed)
            while text not in self.seen and select.select([self.master], [], [], 1)[0]:
                self.seen += os.read(self.master, 4096).decode(errors="replace")
        self.seen = self.seen.split(text, 1)[1]

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def end(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


loop = "trap 'echo was interrupted; exit 3' INT; echo ready; while :; do sleep 0.05; done"
terminal = Terminal(LEEWAY, "run", "--", "sh", "-c", loop)
terminal.expect("ready")
terminal.type("\x03")
terminal.expect("was interrupted")
print("interrupted", terminal.end())

shell = Terminal("bash", "--norc", "--noprofile", "-i")
shell.type("PS1='pro''mpt '\r")
shell.expect("prompt ")
shell.type(f"{LEEWAY} run -- sh -c 'echo rea''dy; exec cat'\r")
shell.expect("ready")
shell.type("\x1a")
shell.expect("Stopped")
shell.expect("prompt ")
# A second one would go to cat, which prints it.
shell.repeat("fg\r", "cat")
# The shell may not have given the terminal away yet, so this is no carriage return.
shell.repeat("echoed\n", "echoed\r\nechoed")
shell.type("\x04")
shell.expect("prompt ")
shell.type("exit $?\r")
print("stopped, continued and ended" if shell.end() == 0 else "failed")

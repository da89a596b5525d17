"""A program on a terminal of its own."""

import os
import pty
import select
import signal
import sys
import time


class Terminal:
    """What it shows is in `seen`; keys are typed."""

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

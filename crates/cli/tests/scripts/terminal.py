"""`leeway run` on a terminal: Ctrl-C, and job control of a shell. usage: terminal.py LEEWAY"""

import signal
import sys

from on_terminal import Terminal

LEEWAY = sys.argv[1]

# A shell with stopped jobs does not end.
signal.alarm(300)

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

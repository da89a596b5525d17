"""`leeway gateway init` that is ended half-way, at each of its questions. usage: init.py LEEWAY CONFIG"""

import os
import sys
import termios
from pathlib import Path

from on_terminal import Terminal

LEEWAY, CONFIG = sys.argv[1:]
FOLDER = Path(CONFIG).parent
TALK = [
    ("Networks of the home", "\r"),
    ("Networks of the neighbours", "\r"),
    ("Password of owner: ", "a long phrase\r"),
    ("Again, the password of owner: ", "a long phrase\r"),
    ("Password of ann: ", "another phrase\r"),
    ("Again, the password of ann: ", "another phrase\r"),
]


def ended(asked: int, key: str) -> str:
    """How it ends with this key at that question, and what is left."""
    terminal = Terminal(LEEWAY, "gateway", "init", "--config", CONFIG, "--users", "ann")
    for question, answer in TALK[:asked]:
        terminal.expect(question)
        terminal.type(answer)
    terminal.expect(TALK[asked][0])
    terminal.type(key)
    code = terminal.end()
    shown = termios.tcgetattr(terminal.master)[3] & termios.ECHO
    os.close(terminal.master)
    left = f"left: {list(FOLDER.iterdir())}" if FOLDER.exists() else "nothing left"
    return f"{code} {'shown' if shown else 'hidden'} {left}"


for number, (question, _) in enumerate(TALK):
    print(question.strip(" :"), "|", ended(number, "\x03"), "|", ended(number, "\x04"))

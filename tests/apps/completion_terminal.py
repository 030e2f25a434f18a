"""Tab, pressed in a real terminal: what bash itself does with the words that it is offered.

Usage: completion_terminal.py NARROW HOSTILE.safetensors, in which one tensor is named v$((a[$(touch broken)])): bash would run that
while it looks whether the word is a file. Status 0: the word is written quoted, and nothing was run."""

import os
import pty
import select
import shutil
import signal
import sys
import tempfile
import time


def read(terminal, seconds, until):
    said, end = b"", time.monotonic() + seconds
    while time.monotonic() < end and until not in said:
        if select.select([terminal], [], [], 0.1)[0]:
            said += os.read(terminal, 65536)
    return said


def main(program, hostile):
    with tempfile.TemporaryDirectory() as work:
        os.symlink(program, f"{work}/narrow")
        shutil.copy(hostile, f"{work}/m.safetensors")
        child, terminal = pty.fork()
        if child == 0:
            os.chdir(work)
            os.environ.update(PATH=f"{work}:{os.environ['PATH']}", HOME=work, PS1="$ ", TERM="dumb", HISTFILE="")
            os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
        os.write(terminal, b"bind 'set enable-bracketed-paste off'; source <(narrow complete bash); echo rea''dy\n")
        if b"ready" not in read(terminal, 20, b"ready\r\n"):
            os.kill(child, signal.SIGKILL)
            return "bash did not start"
        os.write(terminal, b"narrow inspect m.safetensors:v\t")
        said = read(terminal, 10, rb"broken\)\]\)\)")
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        if os.path.exists(f"{work}/broken"):
            return "Tab ran a command that is in the name of a tensor"
        if rb":v\$\(\(a\[\$\(touch\ broken\)\]\)\)" not in said:
            return f"the name was not written quoted: {said!r}"
        return 0


sys.exit(main(*sys.argv[1:]))

"""python -m narrow: the program, which lies beside the package or in the build folder."""

import os
import sys
from pathlib import Path

from . import _narrow


def main() -> int:
    here = Path(__file__).resolve().parent
    for program in (here / "bin" / "narrow", here.parent.parent / "apps" / "narrow"):
        if program.exists():
            os.execv(program, [str(program), *sys.argv[1:]])
    try:
        status, out, err = _narrow.run_command(sys.argv[1:])
    except ValueError as error:
        status, out, err = 2, "", f"narrow: {error}\n"
    sys.stdout.write(out)
    sys.stderr.write(err)
    return status


if __name__ == "__main__":
    sys.exit(main())

# Are the rendered notebooks valid? Asks python3-nbformat, and is skipped (status 77) where that is not installed.
import os
import pathlib
import sys

try:
    import nbformat
except ImportError:
    # Debian's package belongs to Debian's Python, which need not be the first on PATH.
    debian = "/usr/bin/python3"
    if os.path.exists(debian) and os.path.realpath(debian) != os.path.realpath(sys.executable):
        os.execv(debian, [debian] + sys.argv)
    print("skipped: python3-nbformat is not installed")
    sys.exit(77)

files = sorted(pathlib.Path(sys.argv[1]).glob("*.ipynb"))
assert files, "no notebooks in " + sys.argv[1]
for path in files:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) >= (4, 5), path
print(len(files), "notebooks are valid")

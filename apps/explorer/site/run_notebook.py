"""Runs the code cells of a notebook, one after the other in one namespace, and prints what each of them showed, as JSON: a list of
[text, svg] a code cell. Started with the interpreter that the package narrow was built for, and PYTHONPATH.
"""

import ast
import contextlib
import io
import json
import sys
import tempfile

with open(sys.argv[1], encoding="utf-8") as file:
    cells = json.load(file)["cells"]

shown, names = [], {"__name__": "__main__"}
with tempfile.TemporaryDirectory() as folder:
    tempfile.tempdir = folder
    for cell in cells:
        if cell["cell_type"] != "code":
            continue
        body = ast.parse("".join(cell["source"])).body
        last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
        out, svg = io.StringIO(), ""
        with contextlib.redirect_stdout(out):
            exec(compile(ast.Module(body, []), sys.argv[1], "exec"), names)
            # As Jupyter does: the value of an expression that ends a cell is shown, drawn where it can be.
            value = None if last is None else eval(compile(ast.Expression(last.value), sys.argv[1], "eval"), names)
            if hasattr(value, "_repr_svg_"):
                svg = value._repr_svg_()
            elif value is not None:
                print(repr(value))
        shown.append([out.getvalue(), svg])
    text = json.dumps(shown)
    # A temporary name is another in every run.
    for entry in {word for word in text.split("'") if word.startswith(folder)}:
        text = text.replace(entry, entry.rsplit("/", 1)[-1])
print(text)

"""Makes the site of narrow: one folder of pages for file:// or any static server, without scripts of its own or requests anywhere.

Ingredients: the program (it also turns Markdown into pages, so that all have one look), the sources, and what other targets leave
in the build folder: report, lessons, explorer, C++ reference, Python package. What is missing is left out, with a line that says so.
"""

import argparse
import ast
import html
import inspect
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]

# folder, its word in the bar, what is behind it
SECTIONS = [
    ("explorer", "Explorer", "Numbers, formats, your own tensors, tensor cores and loss scales, computed in this browser."),
    ("docs", "Pages", "How to use all of it, one question a page."),
    ("report", "Report", "Every experiment: a question, a picture, a finding."),
    ("lessons", "Lessons", "Fourteen lessons, from what the bits mean to a training run diagnosed."),
    ("notebooks", "Notebooks", "To start from in Python, each with what it prints."),
    ("formats", "Formats", "A card a format: fields, limits, special codes; and which device knows it."),
    ("models", "Models", "The arithmetic of tensor cores, each model with its evidence and source."),
    ("commands", "Commands", "Every command of the program with its options and an example."),
    ("cpp", "C++", "The library, header by header."),
    ("python", "Python", "The package, with narrow.testing and narrow.torch."),
    ("bench", "Benchmarks", "Speed beside memcpy, Eigen, cat, PyTorch."),
]
# Files of the repository that are pages of the site under another name.
PLACES = {"README.md": "index.html", "docs/README.md": "docs/index.html", "notebooks": "notebooks/index.html",
          "notebooks_cpp/README.md": "lessons/index.html", "data/bench/README.md": "bench/index.html", "lib/reference/README.md": "cpp/index.html"}  # fmt: skip


def plain(text):
    """Text that Markdown leaves as it is; what stands in backticks stays code."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(p if i % 2 else re.sub(r"([\\`*$\[\]|])", r"\\\1", p) for i, p in enumerate(parts))


def fenced(text, language=""):
    return f"```{language}\n{text.rstrip()}\n```\n"


def table(head, rows, right=()):
    lines = [head, [("---:" if i in right else "---") for i in range(len(head))], *rows]
    return "".join("| " + " | ".join(str(cell) for cell in line) + " |\n" for line in lines)


def outside_fences(text, change):
    """The text with `change` applied to every stretch of it that is not in a ``` block."""
    parts = re.split(r"(^```.*?^```[^\n]*$)", text, flags=re.M | re.S)
    return "".join(p if i % 2 else change(p) for i, p in enumerate(parts))


def known_markdown(text):
    """Markdown of files, in the words that the program knows: blocks by indentation become fences, a $ is no formula."""

    def change(part):
        part = re.sub(r"(?<=\n)\n((?: {4}[^\n]*\n|\n(?= {4}))+)",
                      lambda m: "\n" + fenced(re.sub(r"^ {4}", "", m[1], flags=re.M)), part)  # fmt: skip
        return outside_fences(part, lambda p: re.sub(r"`[^`]*`|(?<!\\)\$", lambda m: m[0] if m[0] != "$" else "\\$", p))

    return outside_fences(text, change)


class Site:
    def __init__(self, options):
        self.options, self.out, self.program = options, options.out, str(options.narrow)
        self.left_out, self.pending, self.done = [], ["README.md", "data/golden/README.md"], set()
        self.sections = [s for s in SECTIONS if self.has(s[0])]

    def has(self, section):
        """Whether the folder that a section is copied from is there; the other sections need none."""
        sources = {"explorer": (self.options.explorer, "the target explorer"), "report": (self.options.report, "narrow report"),
                   "lessons": (self.options.lessons, "the target notebooks"), "cpp": (self.options.reference, "Doxygen and the target reference")}  # fmt: skip
        if section not in sources:
            return True
        folder, maker = sources[section]
        if (folder / "index.html").is_file():
            return True
        self.left_out.append(f"{section}: no {folder / 'index.html'} ({maker} makes it)")
        return False

    def ask(self, *words):
        """What the program prints."""
        done = subprocess.run([self.program, *words], capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1", "COLUMNS": "100"})
        if done.returncode:
            sys.exit(f"site: narrow {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    # ---- pages ----

    def write(self, path, page, section=None):
        """One page: the bar on top, its place marked."""
        section = section or path.split("/")[0]
        up = "../" * path.count("/")
        mark = lambda there: ' aria-current="page"' if there else ""  # noqa: E731
        bar = f'<nav class="bar" aria-label="site"><a class="name" href="{up}index.html"{mark(path == "index.html")}>narrow</a>'
        bar += "".join(f'<a href="{up}{s}/index.html"{mark(s == section)}>{word}</a>' for s, word, _ in self.sections) + "</nav>\n"
        page = page.replace("</head>", f'<link rel="stylesheet" href="{up}site.css">\n</head>', 1)
        page = re.sub(r"<body[^>]*>", lambda m: ('<body class="cpp">' if section == "cpp" else m[0]) + "\n" + bar, page, count=1)
        if section != "cpp":
            page = re.sub(r"<title>(.*?)</title>", lambda m: f"<title>{title_text(m[1])}</title>", page, count=1)
        target = self.out / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page, encoding="utf-8")

    def render(self, text):
        """Markdown as a page, by the program."""
        with tempfile.TemporaryDirectory() as folder:
            source, page = f"{folder}/page.md", f"{folder}/page.html"
            pathlib.Path(source).write_text(text, encoding="utf-8")
            self.ask("notebook", source, "-o", page)
            return pathlib.Path(page).read_text(encoding="utf-8")

    def markdown(self, path, text, change=lambda page: page):
        """A page from Markdown, with its sections beside it where the screen is wide."""
        page = change(self.render(text))
        places = re.findall(r'<h2 id="([^"]+)">(.*?)</h2>', page)
        links = "".join(f'<a href="#{id}">{re.sub("<[^>]+>", "", words)}</a>\n' for id, words in places)
        if len(places) > 2:
            page = page.replace("<main>", f'<nav class="toc" aria-label="sections">\n{links}</nav>\n<main>', 1)
        self.write(path, page)

    def copy(self, source, section, change=lambda page: page):
        """A folder as it is, its pages with the bar."""
        target = self.out / section
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.ipynb", "*.md5", "*.map"))
        for page in sorted(target.glob("*.html")):
            self.write(f"{section}/{page.name}", change(page.read_text(encoding="utf-8")))

    # ---- Markdown files of the repository ----

    def place_of(self, file):
        """The page that a file of the repository has on the site, or None."""
        place = PLACES.get(file)
        if place and ("/" not in place or any(s[0] == place.split("/")[0] for s in self.sections)):
            return place
        if not file.endswith(".md") or not (ROOT / file).is_file():
            return None
        return file[:-3] + ".html" if file.startswith("docs/") else f"docs/{file[:-3]}.html"

    def document(self, file):
        """A Markdown file as a page; files that it links to follow, links to what the site does not hold become text."""
        if file in self.done:
            return
        self.done.add(file)
        path = self.place_of(file)
        folder = os.path.dirname(file)

        def link(m):
            to, fragment = re.fullmatch(r"([^#]*)(#.*)?", html.unescape(m[1])).groups()
            if not to or "://" in to:
                return m[0]
            named = os.path.normpath(os.path.join(folder, to))
            place = self.place_of(named)
            if place is None:
                return m[2]
            if place.startswith("docs/") or named == "data/bench/README.md":
                self.pending.append(named)
            return f'<a href="{relative(path, place)}{fragment or ""}">{m[2]}</a>'

        def picture(m):
            source = ROOT / folder / m[1]
            if not source.is_file():
                sys.exit(f"site: {file}: no picture {m[1]}")
            copied = self.out / "pictures" / source.name
            copied.parent.mkdir(exist_ok=True)
            shutil.copyfile(source, copied)
            words = html.escape(html.unescape(re.sub(r"<[^>]+>", "", m[2])))
            return f'<figure><img src="{relative(path, "pictures/" + source.name)}" alt="{words}"></figure>'

        def change(page):
            page = re.sub(r'!<a href="([^"]+\.(?:svg|png|jpg))">(.*?)</a>', picture, page, flags=re.S)
            page = re.sub(r'<a href="([^"]*)">(.*?)</a>', link, page, flags=re.S)
            return page.replace("</p>", "</p>\n" + self.cards(), 1) if file == "README.md" else page

        self.markdown(path, known_markdown((ROOT / file).read_text(encoding="utf-8")), change)

    def cards(self):
        rows = "".join(f'<a href="{s}/index.html"><b>{word}</b>{words}</a>\n' for s, word, words in self.sections)
        return f'<nav class="cards" aria-label="what is here">\n{rows}</nav>\n'

    # ---- sections ----

    def explorer(self):
        shutil.copytree(self.options.explorer, self.out / "explorer")
        page = self.out / "explorer" / "index.html"
        # Its policy allows no style but its own, so that the way back is a plain link where the name stands.
        text = page.read_text(encoding="utf-8")
        page.write_text(text.replace("<h1>narrow <", '<h1><a href="../index.html">narrow</a> <', 1), encoding="utf-8")

    def report(self):
        self.copy(self.options.report, "report")

    def lessons(self):
        self.copy(self.options.lessons, "lessons")

    def cpp(self):
        names = {page.name for page in self.options.reference.iterdir()}

        def whole(text):
            """Doxygen names pages that it does not write, those of concepts, and files that a text links to: their names stay."""

            def link(m):
                there = m[1] in names if m[1] else f'id="{m[2]}"' in text or f'name="{m[2]}"' in text
                return m[0] if there else m[3]

            return re.sub(r'<a [^>]*?href="([^":#]*)#?([^":]*)"[^>]*>(.*?)</a>', link, text.replace(f"{ROOT}/", ""))

        self.copy(self.options.reference, "cpp", whole)

    def docs(self):
        for file in sorted((ROOT / "docs").glob("*.md")):
            self.document(f"docs/{file.name}")

    def bench(self):
        self.document("data/bench/README.md")

    def notebooks(self):
        rows = []
        for file in sorted((ROOT / "notebooks").glob("*.ipynb")):
            cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
            shown, pieces, text = self.outputs(file), [], ""
            for cell in cells:
                source = "".join(cell["source"])
                if cell["cell_type"] == "markdown":
                    text += known_markdown(source) + "\n\n"
                    continue
                out, svg = shown.pop(0) if shown else ("", "")
                piece = f"<pre>{html.escape(out.rstrip(), quote=False)}</pre>" if out.strip() else ""
                piece += f'<figure><div class="wide">{svg}</div></figure>' if svg else ""
                pieces.append(f'<div class="out">{piece}</div>' if piece else "")
                text += f"{fenced(source)}\nOUTPUT-{len(pieces) - 1}\n\n"
            put = lambda page: re.sub(r"<p>OUTPUT-(\d+)</p>", lambda m: pieces[int(m[1])], page)  # noqa: B023, E731
            self.markdown(f"notebooks/{file.stem}.html", text, put)
            first = [line for line in "".join(cells[0]["source"]).splitlines() if line.strip()]
            rows.append([f"[{first[0].lstrip('# ')}]({file.stem}.html)", first[1] if len(first) > 1 else ""])
        said = "Each runs as it stands; what it prints is from the package that this site was built with." if self.options.package else ""
        self.markdown("notebooks/index.html", "# Notebooks for Python\n\n" + said + "\n\n" + table(["notebook", "about"], rows))

    def outputs(self, file):
        """What the cells show, where the package is built."""
        if not self.options.package:
            return []
        done = subprocess.run([self.options.python, HERE / "run_notebook.py", file], capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": str(self.options.package), "PYTHONDONTWRITEBYTECODE": "1"})  # fmt: skip
        if done.returncode == 0:
            return json.loads(done.stdout)
        self.left_out.append(f"outputs of {file.name}: {done.stderr.strip().splitlines()[-1]}")
        return []

    def formats(self):
        names = [row["name"] for row in json.loads(self.ask("formats", "--json"))]
        with tempfile.TemporaryDirectory() as folder:
            for name in ["", *names]:
                page = pathlib.Path(folder) / "card.html"
                self.ask("formats", *filter(None, [name]), "--card", "-o", str(page))
                self.write(f"formats/{name or 'card'}.html", page.read_text(encoding="utf-8"))
        listed = re.sub(r"^\| (\w+) \|", lambda m: f"| [{m[1]}]({m[1]}.html) |" if m[1] in names else m[0],
                        self.ask("formats", "--markdown"), flags=re.M)  # fmt: skip
        devices = self.ask("formats", "--devices", "--markdown")
        self.markdown("formats/index.html",
                      f"# Formats\n\nA card for each: its name below. [All cards on one page](card.html), to print.\n\n{listed}\n"
                      "Any `eXmY` (IEEE-like), `eXmYfn` (no Inf, one NaN a sign) and `eXmYf` (every code finite) is a format too.\n\n"
                      f"## Devices\n\nWhich device multiplies and converts in which format, and since when.\n\n{devices}\n")  # fmt: skip

    def models(self):
        rows = json.loads(self.ask("models", "--json"))
        count = lambda **wanted: sum(all(row[k] == v for k, v in wanted.items()) for row in rows) or ""  # noqa: E731
        kinds, generations = (list(dict.fromkeys(row[key] for row in rows)) for key in ("evidence", "generation"))
        for generation in generations:
            self.models_of(generation, [row for row in rows if row["generation"] == generation])
        first = {kind: next(row["name"] for row in rows if row["evidence"] == kind) for kind in kinds}
        meaning = {kind: re.search(r"^  evidence +(.*)$", self.ask("models", first[kind]), re.M)[1] for kind in kinds}
        self.markdown("models/index.html", "# Models of sums\n\n"
                      f"{len(rows)} models say how sums of products are computed, each with its source and its evidence. "
                      "What was recorded on a GPU, and how: [data/golden](../docs/data/golden/README.html).\n\n"
                      + table(["evidence", "models", "for example"], [[kind, count(evidence=kind), plain(f"`{first[kind]}`: {meaning[kind]}")]
                                                                      for kind in kinds], right=[1])
                      + "\n## By generation\n\n"
                      + table(["generation", *kinds], [[f"[{g}]({g}.html)", *(count(generation=g, evidence=kind) for kind in kinds)]
                                                       for g in generations], right=range(1, 1 + len(kinds))))  # fmt: skip

    def models_of(self, generation, rows):
        listed = table(["model", "K", "evidence", "source", "arithmetic"],
                       [[f"`{row['name']}`", row["instruction_k"] or "-", " ".join(filter(None, [row["evidence"], row["proof"]])),
                         plain(row["source"]), plain(row["arithmetic"])] for row in rows], right=[1])  # fmt: skip
        first = list({row["arithmetic"]: row["name"] for row in reversed(rows)}.values())[::-1]
        examples = "".join(f"### {plain(name)}\n\n{fenced(self.ask('models', name).split(chr(10), 1)[1])}\n" for name in first)
        self.markdown(f"models/{generation}.html", f"# {generation}\n\n{len(rows)} models; below them an [example](#examples) of each "
                      f"arithmetic. [All generations](index.html).\n\n{listed}\n## Examples\n\n{examples}")  # fmt: skip

    def commands(self):
        top = self.ask("--help")
        names = re.findall(r"^  (\S+) {2,}(.*)$", top.split("Subcommands:\n")[1].split("\n\n")[0], re.M)
        text = "# Commands\n\n" + table(["command", "does"], [[f"[`narrow {n}`](#narrow-{n})", plain(does)] for n, does in names])
        text += "\n" + plain(top.rstrip().rsplit("\n", 1)[1]) + "\n\n"
        for name, _ in names:
            head, rest = self.ask(name, "--help").rstrip().split("Usage: ", 1)
            does, *about = head.strip().split("\n\n")
            usage, *blocks = rest.split("\n\n")
            text += f"## narrow {name}\n\n{plain(does[0].upper() + does[1:])}.\n\n"
            text += "".join(plain(" ".join(part.split())) + "\n\n" for part in about) + fenced(usage) + "\n"
            for block in blocks:
                title, _, body = block.partition("\n")
                if title in ("Positionals:", "Options:"):
                    text += table([title[:-1].lower(), ""], options_of(body)) + "\n"
                else:
                    text += f"{plain(title)}\n\n" + (fenced(inspect.cleandoc("\n" + body)) + "\n" if body else "")
        self.markdown("commands/index.html", text)

    def python(self):
        source, stub = ROOT / "lib/python/narrow", self.options.package and self.options.package / "narrow/_narrow.pyi"
        text, index = "", []
        for module, file in (("narrow", "__init__.py"), ("narrow.testing", "testing.py"), ("narrow.torch", "torch/__init__.py")):
            members = members_of(source / file, stub if stub and stub.is_file() else None)
            if missing := [name for name, node in members if node is None]:
                self.left_out.append(f"python: {module} without {', '.join(missing)} (compiled; the Python package is not built)")
            members = [(name, node) for name, node in members if node is not None]
            text += f"## {module}\n\n" + docstring(ast.parse((source / file).read_text(encoding="utf-8")))
            text += "".join(member_text(module, name, node) for name, node in members)
            index.append(f"`{module}`: " + ", ".join(f"[{name}](#{anchor(module, name, node)})" for name, node in members) + ".")
        self.markdown("python/index.html", "# The Python package\n\n" + "\n\n".join(index) + "\n\n" + text)

    # ---- all ----

    def make(self):
        if self.out.exists():
            # Only what an earlier run made is taken away.
            if any(self.out.iterdir()) and not (self.out / "site.css").is_file():
                sys.exit(f"site: {self.out} holds something else; another folder, or an empty one")
            shutil.rmtree(self.out)
        self.out.mkdir(parents=True)
        shutil.copyfile(HERE / "site.css", self.out / "site.css")
        (self.out / ".nojekyll").touch()  # GitHub Pages: names that begin with _ are files too
        for section, _, _ in self.sections:
            getattr(self, section)()
        while self.pending:
            self.document(self.pending.pop())
        if not self.options.package:
            self.left_out.append("notebooks: without what they print (the Python package is not built)")
        for line in self.left_out:
            print("left out:", line)
        print(f"{sum(1 for _ in self.out.rglob('*.html'))} pages: {self.out / 'index.html'}")


def title_text(title):
    """Whole HTML of a heading may have come in as a title."""
    words = re.sub(r"<[^>]+>", "", html.unescape(title)).strip()
    return html.escape(words if "narrow" in words else f"{words} | narrow", quote=False)


def relative(page, to):
    return os.path.relpath(to, os.path.dirname(page) or ".")


def options_of(block):
    """The rows of a block of the help: `  --name VALUE   words`, the words on lines of their own where the name is long."""
    rows = []
    for line in block.split("\n"):
        m = re.fullmatch(r"  (\S.*?)(?: {2,}(.*))?", line)
        if m:
            rows.append([f"`{m[1]}`", m[2] or ""])
        elif rows:
            rows[-1][1] = (rows[-1][1] + " " + line.strip()).strip()
    return [[name, plain(words)] for name, words in rows]


# ---- the Python reference: from the sources, so that nothing has to be imported ----


def members_of(file, stub):
    """The public names of a module with their definitions: its own, or those of the files beside it that it imports from."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    named = [node.value for node in tree.body if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__"]
    own = definitions(tree)
    names = ast.literal_eval(named[0]) if named else [name for name in own if not name.startswith("_")]
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module and (file.parent / f"{node.module}.py").is_file():
            there = definitions(ast.parse((file.parent / f"{node.module}.py").read_text(encoding="utf-8")))
            own.update({alias.name: there[alias.name] for alias in node.names if alias.name in there})
    compiled = definitions(ast.parse(stub.read_text(encoding="utf-8"))) if stub else {}
    modules = {name for name in names if (file.parent / f"{name}.py").is_file()}
    return [(name, own.get(name) or compiled.get(name)) for name in names if name not in modules]


def definitions(tree):
    return {node.name: node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}


def docstring(node):
    """A docstring as Markdown: its words, and its examples as code."""
    text = re.sub(r"(^>>> .*?)(?=\n\n|\Z)", lambda m: fenced(m[1], "python"), ast.get_docstring(node) or "", flags=re.M | re.S)
    text = outside_fences(text, lambda part: re.sub(r"(?<=\n)\n((?: {4}[^\n]*\n?)+)", lambda m: "\n" + fenced(inspect.cleandoc("\n" + m[1])), part))
    return outside_fences(text, plain) + "\n\n"


def signature(node, name):
    arguments = ast.unparse(node.args)
    arguments = re.sub(r"^self(?:, |$)", "", arguments)
    returned = f" -> {ast.unparse(node.returns)}" if node.returns and name[0] != "_" else ""
    return f"{name}({arguments}){returned}"


def heading(module, name, node):
    return ("class " if isinstance(node, ast.ClassDef) else "") + f"{module}.{name}"


def anchor(module, name, node):
    return re.sub(r"[^a-z0-9]+", "-", heading(module, name, node).lower())


def member_text(module, name, node):
    text = f"### {heading(module, name, node)}\n\n"
    if isinstance(node, ast.FunctionDef):
        return text + fenced(signature(node, name)) + "\n" + docstring(node)
    text += docstring(node)
    lines = [f"{item.target.id}: {ast.unparse(item.annotation)}" for item in node.body
             if isinstance(item, ast.AnnAssign) and item.target.id[0] != "_"]  # fmt: skip
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and item.name[0] != "_":
            words = " ".join((ast.get_docstring(item) or "").split("\n\n")[0].split())
            is_property = any(getattr(d, "id", "") in ("property", "cached_property") for d in item.decorator_list)
            told = f"{item.name}: {ast.unparse(item.returns)}" if is_property and item.returns else signature(item, item.name)
            lines.append(told + (f"\n{textwrap.fill(words, 96, initial_indent='    ', subsequent_indent='    ')}" if words else ""))
    return text + (fenced("\n".join(lines)) + "\n" if lines else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    folder = pathlib.Path
    parser.add_argument("--build", type=folder, required=True, help="the build folder, with what its targets have left there")
    parser.add_argument("--narrow", type=folder, help="the program (default: apps/narrow of the build folder)")
    parser.add_argument("--out", type=folder, required=True, help="the folder of the site; what an earlier run left there is replaced")
    parser.add_argument("--report", type=folder, help="what `narrow report -o` wrote (default: site-report of the build folder)")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that the Python package was built for")
    options = parser.parse_args()
    build = options.build
    options.narrow = (options.narrow or build / "apps/narrow").resolve()
    if not os.access(options.narrow, os.X_OK):
        sys.exit(f"site: no program {options.narrow}; build the target narrow_app first")
    options.report = options.report or build / "site-report"
    options.lessons, options.explorer, options.reference = build / "notebooks", build / "explorer", build / "reference/html"
    options.package = build / "python" if list((build / "python/narrow").glob("_narrow.*.so")) else None
    Site(options).make()


if __name__ == "__main__":
    main()

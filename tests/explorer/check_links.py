"""Are the links of a folder of pages whole? Every href and src within it names a file that is there, every #place an id of that
page; nothing is absolute, nothing is asked of the network. Usage: check_links.py FOLDER; exit 1 with a line a fault.
"""

import html.parser
import pathlib
import re
import sys
import urllib.parse

# What a browser fetches by itself, against what a person has to click.
FETCHED = {("link", "href"), ("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("video", "src"), ("audio", "src"),
           ("embed", "src"), ("object", "data"), ("image", "href"), ("image", "xlink:href"), ("use", "href"), ("use", "xlink:href"),
           ("input", "src"), ("track", "src"), ("video", "poster")}  # fmt: skip
CLICKED = {("a", "href"), ("area", "href"), ("form", "action"), ("a", "xlink:href")}
IN_STYLE = re.compile(r"""url\(\s*["']?([^"')]*)|@import\s+["']([^"']*)""")
# Their places are made by a script out of the state in the link.
BY_SCRIPT = {"explorer/index.html"}


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.ids, self.links, self.in_style = {"top"}, [], False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.in_style = tag == "style"
        for name, value in attributes:
            value = value or ""
            if name == "id" or (name == "name" and tag == "a"):
                self.ids.add(value)
            elif (tag, name) in FETCHED or (tag, name) in CLICKED:
                self.links.append(((tag, name) in FETCHED, value.strip()))
            elif name == "srcset":
                self.links += [(True, part.split()[0]) for part in value.split(",") if part.strip()]
            elif name == "style":
                self.links += in_style(value)
            elif name == "http-equiv" and value.lower() == "refresh":
                self.links.append((True, "refresh:"))

    def handle_endtag(self, tag):
        self.in_style = False

    def handle_data(self, text):
        if self.in_style:
            self.links += in_style(text)


def in_style(text):
    return [(True, (m[1] or m[2] or "").strip()) for m in IN_STYLE.finditer(text)]


def check(folder):
    """(pages, links within the folder, what is wrong)"""
    folder = pathlib.Path(folder).resolve()
    pages = {path.relative_to(folder).as_posix(): Page(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.html"))}
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    sheets = {name: in_style((folder / name).read_text(encoding="utf-8")) for name in sorted(files) if name.endswith(".css")}
    count, faults = 0, []
    for name, links in [*((name, page.links) for name, page in pages.items()), *sheets.items()]:
        for fetched, link in links:
            wrong = fault_of(link, fetched, name, pages, files)
            if wrong:
                faults.append(f"{name}: {link!r} {wrong}")
            count += not re.match(r"[a-z]+:", link, re.I)
    return len(pages), count, faults


def fault_of(link, fetched, name, pages, files):
    scheme = re.match(r"([a-z][a-z0-9+.-]*):", link, re.I)
    if scheme and scheme[1].lower() in ("data", "javascript"):
        return ""
    if link.startswith("//") or (scheme and fetched):
        return "is asked of the network"
    if scheme:
        return "" if scheme[1].lower() in ("http", "https", "mailto") else "is no address for a page"
    if link.startswith("/") or "\\" in link:
        return "is absolute"
    to, _, place = link.partition("#")
    parts = [] if to.partition("?")[0] else name.split("/")
    if not parts:
        parts = name.split("/")[:-1]
        for part in urllib.parse.unquote(to.partition("?")[0]).split("/"):
            if part == "..":
                if not parts:
                    return "leaves the folder"
                parts.pop()
            elif part != ".":
                parts.append(part)
    target = "/".join(parts)
    if target not in files:
        return "is not there"
    if place and target in pages and target not in BY_SCRIPT and urllib.parse.unquote(place) not in pages[target].ids:
        return "names a place that is not there"
    return ""


if __name__ == "__main__":
    pages, links, faults = check(sys.argv[1])
    for fault in faults:
        print(fault)
    print(f"{pages} pages, {links} links within them, {len(faults)} faults")
    sys.exit(1 if faults or not pages else 0)

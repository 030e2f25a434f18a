"""The site: made into a temporary folder with a small report, every link in it followed; and the same for links that are broken on
purpose. Usage: site_test.py BUILD NARROW [PYTHON OF THE PACKAGE]
"""

import filecmp
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from check_links import check

BUILD, NARROW, *PYTHON = sys.argv[1:]
ROOT = pathlib.Path(__file__).resolve().parents[2]
SITE = ROOT / "apps/explorer/site/make_site.py"


def run(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(f"{words}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def make(out, build=BUILD):
    python = [f"--python={PYTHON[0]}"] if PYTHON else []
    return run(sys.executable, "-B", SITE, "--build", build, "--narrow", NARROW, "--out", out, "--report", FOLDER / "report", *python)


def files_of(folder):
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


class TheSite(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        run(NARROW, "report", "--fast", "--only", "gradient_underflow,format_choice", "-o", FOLDER / "report")
        cls.said = make(FOLDER / "site")

    def test_every_link_leads_somewhere(self):
        pages, links, faults = check(FOLDER / "site")
        print(f"{self.said}{pages} pages, {links} links", flush=True)
        self.assertEqual(faults, [])
        self.assertGreater(pages, 60)
        self.assertGreater(links, 1000)

    def test_every_section_is_in_the_bar_of_its_pages_and_on_the_first_page(self):
        site = FOLDER / "site"
        folders = {path.name for path in site.iterdir() if (path / "index.html").is_file()}
        self.assertLessEqual({"docs", "report", "notebooks", "formats", "models", "commands", "python", "bench"}, folders)
        home = (site / "index.html").read_text(encoding="utf-8")
        for folder in folders:
            self.assertIn(f'<a href="{folder}/index.html"><b>', home)
            for page in site.glob(f"{folder}/*.html"):
                if folder != "explorer":
                    self.assertIn(f'<a href="../{folder}/index.html" aria-current="page">', page.read_text(encoding="utf-8"), page)

    def test_the_pages_of_docs_are_pages_that_their_index_and_the_first_page_link_to(self):
        home, index = ((FOLDER / "site" / name).read_text(encoding="utf-8") for name in ("index.html", "docs/index.html"))
        for file in (ROOT / "docs").glob("*.md"):
            if file.name != "README.md":
                self.assertIn(f'<a href="{file.stem}.html">', index)
                self.assertIn(f'<a href="docs/{file.stem}.html">', home)

    def test_two_runs_make_the_same_bytes_and_name_no_folder_of_this_machine(self):
        make(FOLDER / "again")
        names = files_of(FOLDER / "site")
        self.assertEqual(names, files_of(FOLDER / "again"))
        same, differing, _ = filecmp.cmpfiles(FOLDER / "site", FOLDER / "again", names, shallow=False)
        self.assertEqual(differing, [])
        for name in names:
            if name.suffix in (".html", ".css", ".js"):
                text = (FOLDER / "site" / name).read_text(encoding="utf-8")
                for path in (str(FOLDER), str(ROOT) + "/", str(pathlib.Path(BUILD).resolve()) + "/"):
                    self.assertNotIn(path, text, name)

    def test_what_the_build_does_not_have_is_left_out_and_said(self):
        said = make(FOLDER / "bare", build=FOLDER / "nothing")
        for section in ("explorer", "lessons", "cpp"):
            self.assertIn(f"left out: {section}", said)
        self.assertEqual(check(FOLDER / "bare")[2], [])

    def test_without_the_program_there_is_no_site(self):
        done = subprocess.run([sys.executable, "-B", SITE, "--build", FOLDER, "--out", FOLDER / "none"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("build the target narrow_app first", done.stderr)

    def test_a_folder_of_something_else_is_not_emptied(self):
        (FOLDER / "mine").mkdir()
        (FOLDER / "mine" / "file").touch()
        with self.assertRaisesRegex(AssertionError, "holds something else"):
            make(FOLDER / "mine")
        self.assertTrue((FOLDER / "mine" / "file").exists())

    def test_one_broken_link_in_all_of_it_is_found(self):
        shutil.copytree(FOLDER / "site", FOLDER / "broken")
        page = FOLDER / "broken/commands/index.html"
        page.write_text(page.read_text(encoding="utf-8").replace('href="#narrow-show"', 'href="#narrow-sow"', 1), encoding="utf-8")
        self.assertEqual(len(check(FOLDER / "broken")[2]), 1)


class TheChecker(unittest.TestCase):
    """What is planted into a page is found, and nothing else."""

    def faults(self, planted, sheet=""):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "a").mkdir()
            (folder / "a/page.html").write_text(f'<p id="here">{planted}</p>', encoding="utf-8")
            (folder / "a/page.csv").touch()
            (folder / "style.css").write_text(sheet, encoding="utf-8")
            return check(folder)[2]

    def test_finds_what_is_broken(self):
        for planted, words in (('<a href="gone.html">x</a>', "is not there"), ('<a href="page.html#gone">x</a>', "place that is not there"),
                               ('<a href="#gone">x</a>', "place that is not there"), ('<img src="gone.svg">', "is not there"),
                               ('<a href="../a">x</a>', "is not there"), ('<a href="../../out.html">x</a>', "leaves the folder"),
                               ('<a href="/a/page.html">x</a>', "is absolute"), ('<a href="file:///a/page.html">x</a>', "no address"),
                               ('<script src="https://example.org/x.js"></script>', "network"), ('<img src="//example.org/x.png">', "network"),
                               ('<link rel="stylesheet" href="http://example.org/x.css">', "network"),
                               ('<style>@import "https://example.org/x.css";</style>', "network"),
                               ('<i style="background:url(https://example.org/x.png)">x</i>', "network")):  # fmt: skip
            found = self.faults(planted)
            self.assertEqual(len(found), 1, planted)
            self.assertIn(words, found[0])
        self.assertEqual(len(self.faults("", sheet="body { background:url('gone.png'); }")), 1)

    def test_leaves_what_is_whole(self):
        whole = '<a href="page.html#here">x</a><a href="page.csv">x</a><a href="../a/page.html?x=1#here">x</a><a href="https://example.org">x</a>'
        self.assertEqual(self.faults(whole + '<img src="data:,">', sheet="@import 'a/page.csv';"), [])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        FOLDER = pathlib.Path(name).resolve()
        (FOLDER / "nothing").mkdir()
        result = unittest.main(argv=sys.argv[:1], exit=False, verbosity=2).result
    sys.exit(not result.wasSuccessful())

"""Does the page show what the program says? Chromium uses every view as a person does, and each number that is shown is compared
with the program's JSON; then files and names that mean harm. Usage: browser_test.py NARROW INDEX.HTML WORK [--all] [--measure] [CASE..];
exit 77 where there is no Chromium, no playwright or no page. --all takes more of each, --measure prints times and rates
in place of the cases.
"""

import array
import base64
import csv
import io
import json
import math
import os
import pathlib
import pickle
import random
import re
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import threading
import time
import unittest
import xml.etree.ElementTree
import zipfile

try:
    from playwright.sync_api import sync_playwright
except ImportError:
    print("skipped: this Python has no playwright (pip install playwright)")
    sys.exit(77)
CHROMIUM = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)
if not CHROMIUM:
    print("skipped: there is no chromium on PATH (Debian: apt-get install chromium)")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
SEED = 24
COMPARED = {}  # kind of case -> how many were compared
SHORT_SPACE = "\u202f"  # between groups of digits

# Counts what the page waits for: answers of the engine, and frames. It is given to every page before its own scripts; waiting for
# conditions in the page by text (wait_for_function) is what the page's policy forbids.
COUNT_WAITING = """
  self.waiting = 0; self.last_change = performance.now();
  const more = (n) => { self.waiting += n; self.last_change = performance.now(); };
  const Plain = Worker, frame = requestAnimationFrame.bind(self);
  self.requestAnimationFrame = (f) => { more(1); return frame((now) => { more(-1); f(now); }); };
  self.Worker = class extends Plain {
    constructor(url) {
      super(url);
      this.addEventListener("message", ({data}) => { if (!data.progress) more(-1); });
    }
    postMessage(message) { more(1); super.postMessage(message); }
  };"""
SETTLED = """(quiet) => new Promise((done) => {
  const begun = performance.now();
  const look = () => {
    if (self.waiting === 0 && performance.now() - Math.max(begun, self.last_change) >= quiet) done();
    else setTimeout(look, 4);
  };
  look();
})"""
QUIET_MS = 15  # for what comes between: an event that is on its way, the next request after an answer
MOST_AGAIN = 4  # failed cases that are tried a second time
READ = """() => JSON.stringify(Object.fromEntries([...document.querySelectorAll("[role=tabpanel]:not([hidden]) [data-test]")].map((node) => [node.dataset.test,
  {text: node.tagName === "SELECT" || node.tagName === "INPUT" ? node.value : node.textContent, value: node.getAttribute("data-value"),
   code: node.getAttribute("data-code"), title: node.getAttribute("title"), pressed: node.getAttribute("aria-pressed"),
   shown: node.getClientRects().length > 0}])))"""


# ---- the program ----
def native(*words, folder=None):
    return subprocess.run([NARROW, *map(str, words)], capture_output=True, text=True, cwd=folder)


def native_json(*words, folder=None):
    done = native(*words, folder=folder)
    if done.returncode:
        raise AssertionError(f"{words}: status {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


def native_json_of_any(*words, folder=None):
    return json.loads(native(*words, folder=folder).stdout)


def sentence_of(*words, folder=None):
    """What the program answers to a bad request, as a page would quote it."""
    done = native(*words, folder=folder)
    if done.returncode != 2:
        raise AssertionError(f"{words}: status {done.returncode}, expected a refusal")
    return done.stderr.strip().split("\n")[-1].removeprefix("narrow: ")


def accepted(option):
    return re.sub(r"\([^)]*\)", " ", sentence_of("show", "0", option, "?").split("accepted:")[1]).replace(",", " ").split()


# ---- texts of the page back to numbers ----
def number_of(text):
    """The number that a text stands for: 17 digits, 2^12, inf, or None for a dash."""
    text = text.strip().lstrip("~").replace(SHORT_SPACE, "")
    if text in ("-", "null", ""):
        return None
    if re.fullmatch(r"2\^-?\d+", text):
        return 2.0 ** int(text[2:])
    return float(text)


def same(shown, expected):
    """One number as text of the page (String of JavaScript, or null) against one of JSON (inf and nan are texts there)."""
    if expected is None:
        return shown in (None, "null", "-", "")
    if shown is None:
        return False
    if isinstance(expected, str):
        return shown == expected
    shown = number_of(shown)
    return shown == expected or (shown is not None and math.isnan(shown) and math.isnan(expected))


def close(shown, expected, tolerance):
    if expected is None or isinstance(expected, str):
        return same(shown, expected)
    return shown is not None and abs(float(shown) - expected) <= tolerance * max(1, abs(expected))


# ---- files, in plain Python: nothing of the program or of numpy is in them ----
def float32_bits(value):
    return struct.unpack("<I", struct.pack("<f", value))[0]


def gradients(dice, count, centre=-19.0, width=4.0):
    """Both signs, log-normal, some zeros; as float32."""
    values = [dice.choice((-1, 1)) * 2 ** dice.gauss(centre, width) if dice.random() > 0.01 else 0.0 for _ in range(count)]
    return list(array.array("f", values))


def bytes_of(values, kind, order="<"):
    if kind == "BF16":
        return b"".join(struct.pack("<H", float32_bits(value) >> 16) for value in values)
    return struct.pack(f"{order}{len(values)}{ {'F64': 'd', 'F32': 'f', 'F16': 'e'}[kind]}", *values)


def safetensors(tensors, metadata=None):
    """tensors: [(name, type, shape, bytes)]"""
    header, at = {"__metadata__": metadata} if metadata else {}, 0
    for name, kind, shape, data in tensors:
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(data for *_, data in tensors)


def npy(data, descr, shape, by_columns=False):
    shape = "(" + "".join(f"{n}," for n in shape) + ")"
    header = f"{{'descr': '{descr}', 'fortran_order': {by_columns}, 'shape': {shape}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


def npz(members, method):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return out.getvalue()


def tensor_files():
    """{name: bytes} of every kind that the page reads, with NaN, Inf, zeros and subnormals among the values."""
    dice = random.Random(SEED)
    special = [0.0, -0.0, math.inf, -math.inf, math.nan, 1e-40, -3e-42, 2.0**-126, 3.4e38, 65504.0, 65520.0, 2.0**-24]
    f32 = gradients(dice, 4084) + special
    f16 = [value if abs(value) <= 65504 else math.copysign(math.inf, value) for value in gradients(dice, 3000, -14, 6)]
    bf16 = gradients(dice, 3000, -10, 20)
    codes = bytes(dice.randrange(256) for _ in range(2048))
    mixed = safetensors([("a.f32", "F32", [64, 64], bytes_of(f32, "F32")), ("b.f16", "F16", [3000], bytes_of(f16, "F16")),
                         ("c.bf16", "BF16", [2, 1500], bytes_of(bf16, "BF16")), ("d.e4m3", "F8_E4M3", [2048], codes),
                         ("e.e5m2", "F8_E5M2", [32, 64], codes[::-1]), ("f.i64", "I64", [2], struct.pack("<2q", 1, 2)),
                         ("g.one", "F32", [], bytes_of([0.1], "F32"))])  # fmt: skip
    rows = gradients(dice, 1500, -3, 3)
    archive = [("weight.npy", npy(bytes_of(rows, "F32"), "<f4", (30, 50))), ("half.npy", npy(bytes_of(f16, "F16"), "<f2", (3000,))),
               ("count.npy", npy(struct.pack("<3i", 1, 2, 3), "<i4", (3,)))]  # fmt: skip
    return {
        "mixed.safetensors": mixed,
        "plain.npy": npy(bytes_of(gradients(dice, 5000), "F32"), "<f4", (5000,)),
        "columns.npy": npy(bytes_of(gradients(dice, 4000, -8, 5), "F32"), "<f4", (40, 100), by_columns=True),
        "big-endian.npy": npy(bytes_of(gradients(dice, 3000, 2, 5), "F32", ">"), ">f4", (3000,)),
        "halves.npy": npy(bytes_of(f16, "F16"), "<f2", (3, 1000)),
        "doubles.npy": npy(bytes_of([0.1 * value for value in rows], "F64"), "<f8", (1500,)),
        "stored.npz": npz(archive, zipfile.ZIP_STORED),
        "deflated.npz": npz(archive, zipfile.ZIP_DEFLATED),
    }


# ---- the browser ----
def start_browser():
    playwright = sync_playwright().start()
    return playwright, playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])


class Tab:
    """A page, what it asked of the network, and what it complained about."""

    def __init__(self, link="", size=(1200, 900), address=None):
        self.context = BROWSER.new_context(viewport={"width": size[0], "height": size[1]}, accept_downloads=True)
        self.requests, self.complaints = [], []
        self.context.on("request", lambda request: self.requests.append(request.url))
        self.context.add_init_script(COUNT_WAITING)
        self.page = self.context.new_page()
        self.page.set_default_timeout(20000)
        self.page.on("console", lambda message: message.type == "error" and self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        self.address = address or INDEX.as_uri()
        self.page.goto(self.address + link)
        self.settle()

    def settle(self):
        self.page.evaluate(SETTLED, QUIET_MS)

    def open(self, link):
        """As a person who follows a link to this page."""
        self.page.evaluate("(link) => { location.hash = link; }", link)
        self.settle()

    def hash(self):
        time.sleep(0.2)  # the link is written when the hand rests
        return self.page.evaluate("location.hash")

    def read(self):
        return json.loads(self.page.evaluate(READ))

    def at(self, test):
        return self.page.locator(f'[role=tabpanel]:not([hidden]) [data-test="{test}"]')

    def type(self, test, text):
        box = self.at(test)
        box.click(click_count=3)
        box.press("Control+a")
        box.press_sequentially(text)
        self.settle()

    def paste(self, test, text):
        self.at(test).fill(text)
        self.settle()

    def press(self, *keys):
        for key in keys:
            self.page.keyboard.press(key)
        self.settle()

    def give(self, test, files):
        self.at(test).set_input_files(files)
        self.settle()

    def drop(self, files):
        """Files as {name: bytes}, dropped by an event with a DataTransfer of the page's own."""
        packed = [[name, base64.b64encode(data).decode()] for name, data in files.items()]
        transfer = self.page.evaluate_handle(
            """(files) => { const transfer = new DataTransfer();
               for (const [name, text] of files) transfer.items.add(new File([Uint8Array.from(atob(text), (c) => c.charCodeAt(0))], name));
               return transfer; }""", packed)  # fmt: skip
        for kind in ("dragenter", "dragover", "drop"):
            self.page.dispatch_event('[data-test="tensors-drop"]', kind, {"dataTransfer": transfer})
        self.settle()

    def drop_from_disk(self, paths, says):
        """As from the desktop: the browser itself makes the DataTransfer, of files and folders."""
        box = self.at("tensors-drop").bounding_box()
        where = {"x": box["x"] + 20, "y": box["y"] + box["height"] - 10}
        data = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
        session = self.context.new_cdp_session(self.page)
        for kind in ("dragEnter", "dragOver", "drop"):
            session.send("Input.dispatchDragEvent", {"type": kind, "data": data, **where})
        self.at("tensors-status").filter(has_text=says).wait_for()
        self.settle()

    def save(self, test):
        with self.page.expect_download() as download:
            self.at(test).click()
        return pathlib.Path(download.value.path()).read_bytes()

    def bars(self):
        """{exponent: values} of the histogram as it is drawn."""
        titles = self.page.locator('[data-test="tensors-histogram"] rect.bar title').all_text_contents()
        found = [re.fullmatch(r"2\^(-?\d+) to 2\^-?\d+: (\d+) values, .*", title.replace(SHORT_SPACE, "")) for title in titles]
        return {int(match[1]): int(match[2]) for match in found}

    def strangers(self):
        """What was asked of anything but the page itself."""
        own = self.address.split("#")[0]
        return [url for url in self.requests if not (url.split("#")[0] == own or url.startswith(("blob:", "data:")))]

    def close(self):
        self.context.close()


class Case(unittest.TestCase):
    link = ""

    @classmethod
    def setUpClass(cls):
        cls.tab = Tab(cls.link)

    @classmethod
    def tearDownClass(cls):
        cls.tab.close()

    def tearDown(self):
        complaints, self.tab.complaints[:] = list(self.tab.complaints), []
        self.assertEqual(complaints, [], "the page complained")
        self.assertEqual(self.tab.strangers(), [], "the page asked the network")
        self.assertFalse(self.tab.page.locator("#error").is_visible(), self.tab.page.locator("#error").text_content())

    def equal(self, kind, shown, expected, where):
        COMPARED[kind] = COMPARED.get(kind, 0) + 1
        if not same(shown, expected):
            self.fail(f"{kind}, {where}: the page shows {shown!r}, the program says {expected!r}")


# ---- view 1 ----
def random_values(dice, count):
    """As people write them: decimals, hex floats, powers, the limits of formats and their neighbours."""
    limits = [row[key] for row in FORMATS for key in ("max", "min_normal", "min_subnormal", "lowest") if row[key] is not None]
    makers = [
        lambda: f"{dice.gauss(0, 3):.4g}",
        lambda: f"{dice.choice('+-').strip('+')}{dice.random() * 10:.3f}e{dice.randint(-45, 40)}",
        lambda: f"{dice.choice(('', '-'))}0x1.{dice.randrange(16**6):06x}p{dice.randint(-30, 20)}",
        lambda: f"{dice.choice(('', '-'))}0x1p{dice.randint(-160, 130)}",
        lambda: repr(dice.choice(limits)),
        lambda: repr(dice.choice(limits) * dice.choice((0.5, 0.75, 1.03, 1.0625, 1.5))),
        lambda: str(dice.randint(-70000, 70000)),
        lambda: repr((dice.randrange(2048) + 0.5) * 2.0 ** dice.randint(-26, 6)),  # ties
    ]
    return [makers[i % len(makers)]() for i in range(count)]


class TheNumberView(Case):
    link = "#number"

    def compare_table(self, rows, where):
        shown = self.tab.read()
        self.assertEqual(shown["number-error"]["text"].strip(), "", where)
        for row in rows:
            name = row["format"]
            for key in ("code", "class"):
                self.equal("number x format", shown[f"{key}-{name}"]["text"], row[key], f"{where}, {name}, {key}")
            for key, field in (("value", "value"), ("error", "error_ulp"), ("below", "below"), ("above", "above")):
                cell = shown[f"{key}-{name}"]
                self.equal("number x format", cell["value"], row[field], f"{where}, {name}, {key}")
                self.check_text(cell, where)
        return shown

    # What a person reads is the value that a test reads, to as many digits as there are.
    def check_text(self, cell, where):
        text, value = cell["text"], cell["value"]
        if text.endswith("\u2026") or value in (None, "null"):
            return
        short, exact = number_of(text), number_of(value)
        good = short == exact or (math.isnan(short) and math.isnan(exact)) or abs(short - exact) <= 1e-5 * abs(exact)
        self.assertTrue(good, f"{where}: the text {text!r} is not {value!r}")

    def compare_rules(self, shown, expected, where):
        """expected: {rule: row, or a sentence}"""
        for rule, row in expected.items():
            card = shown[rule]
            if isinstance(row, str):
                self.equal("rule", card["code"], "", f"{where}, {rule}")
                self.equal("rule", card["title"].removeprefix("narrow: "), row, f"{where}, {rule}")
            else:
                self.equal("rule", card["code"], row["code"], f"{where}, {rule}")
                self.assertIn(row["code"], card["text"], where)

    def rules_of(self, name, values, more=()):
        """[{rule: row or sentence} a value], one call of the program a rule."""
        found = [{} for _ in values]
        for kind in ("rounding", "cast"):
            for rule in ROUNDINGS if kind == "rounding" else CASTS:
                words = ["show", "--formats", name, f"--{kind}", rule, "--json", *more, *(["--random", "0x80000000"] if rule == "stochastic" else [])]
                done = native(*words, "--", *values)
                rows = json.loads(done.stdout) if done.returncode == 0 else [done.stderr.strip().removeprefix("narrow: ")] * len(values)
                for place, row in zip(found, rows):
                    place[f"{kind}-{rule}"] = row
        return found

    def test_typed_numbers_in_every_format_under_every_rule(self):
        dice = random.Random(SEED)
        values = random_values(dice, 3 * len(FORMATS)) + ["inf", "-inf", "nan", "0", "-0", "1e400", "1e-400", "-.5"]
        names = [row["name"] for row in FORMATS]
        expected = native_json("show", "--json", "--formats", ",".join(names), "--", *values)
        by_value = [expected[i * len(names):(i + 1) * len(names)] for i in range(len(values))]
        for place, name in enumerate(names):
            self.tab.at("format").select_option(name)
            mine = list(range(place, len(values), len(names)))
            rules = self.rules_of(name, [values[i] for i in mine])
            for i, rule in zip(mine, rules):
                (self.tab.type if i % 12 == 0 else self.tab.paste)("value", values[i])
                shown = self.compare_table(by_value[i], values[i])
                self.compare_rules(shown, rule, f"{values[i]} in {name}")

    def test_bits_flipped_by_the_mouse_and_by_keys(self):
        dice = random.Random(SEED + 1)
        names = ",".join(row["name"] for row in FORMATS)
        self.tab.open("#number?v=0.1")
        for row in FORMATS:
            self.tab.at("bits-format").select_option(row["name"])
            self.tab.settle()
            code = int(self.tab.read()["code"]["text"], 16)
            for turn in range(2):
                place = dice.randrange(row["bits"])
                if turn == 0:
                    self.tab.at(f"bit-{place}").click()
                    self.tab.settle()
                else:
                    self.tab.at(f"bit-{row['bits'] - 1}").focus()
                    self.tab.press("End", *["ArrowLeft"] * place, "Space")
                code ^= 1 << place
                rows = native_json("show", "--from", row["name"], "--formats", names, "--json", "--", hex(code))
                shown = self.compare_table(rows, f"bit {place} of {row['name']}")
                self.assertEqual(int(shown["code"]["text"], 16), code)
                pressed = "".join("01"[shown[f"bit-{k}"]["pressed"] == "true"] for k in reversed(range(row["bits"])))
                self.assertEqual(int(pressed, 2), code)

    def test_a_typed_code_is_read_in_its_format(self):
        self.tab.open("#number?b=bf16")
        names = ",".join(row["name"] for row in FORMATS)
        for code in ("0x3DCC", "0b1", "31744", "0xFF80"):
            self.tab.type("code", code)
            self.tab.press("Enter")
            self.compare_table(native_json("show", "--from", "bf16", "--formats", names, "--json", "--", code), code)

    def test_the_steps_are_those_of_explain(self):
        for value, name, kind, rule in (("0.1", "fp16", "rounding", "nearest_even"), ("465", "e4m3", "cast", "cuda"), ("1e-6", "fp16", "rounding", "up")):
            self.tab.open(f"#number?v={value}&f={name}&rule={kind}:{rule}")
            words = native("show", value, "--formats", name, f"--{kind}", rule, "--explain").stdout
            shown = self.tab.at("explain").inner_text()
            self.equal("explain", " ".join(shown.split()), " ".join(words.split()), value)

    def test_a_rule_is_chosen_by_a_click_and_the_link_restores_it(self):
        self.tab.open("#number?v=465&f=e4m3")
        self.tab.at("cast-torch").click()
        self.tab.settle()
        self.tab.at("axis").select_option("near")
        self.tab.settle()
        link, before = self.tab.hash(), self.tab.read()
        other = Tab(link)
        after = other.read()
        other.close()
        self.assertEqual(after["explain-rule"]["text"], "cast torch")
        for key in ("explain", "value", "format", "axis", "code-e4m3", "ruler"):
            self.assertEqual(after[key]["text"], before[key]["text"], key)

    def test_what_is_no_number_gets_the_sentence_of_the_program(self):
        for text in ("one", "1e", "0x", "--json", "1 2"):
            self.tab.type("value", text)
            self.equal("sentence", self.tab.read()["number-error"]["text"].removeprefix("narrow: "), sentence_of("show", "--json", "--", text), text)
        self.tab.type("value", "1")
        self.assertEqual(self.tab.read()["number-error"]["text"].strip(), "")

    def test_dots_of_the_ruler_lie_where_the_values_are(self):
        self.tab.open("#number?v=0.3")
        dots = self.tab.page.eval_on_selector_all('[data-test^="lands-"]', "(all) => all.map((n) => [n.dataset.test.slice(6), n.dataset.log2, n.getAttribute('cx')])")
        values = {row["format"]: float(row["value"]) for row in native_json("show", "0.3", "--json")}
        self.assertGreater(len(dots), 10)
        (_, first, first_x), (_, last, last_x) = min(dots, key=lambda d: float(d[1])), max(dots, key=lambda d: float(d[1]))
        for name, log2, x in dots:
            COMPARED["dot of the ruler"] = COMPARED.get("dot of the ruler", 0) + 1
            self.assertAlmostEqual(float(log2), math.log2(values[name]), places=12)
            line = float(first_x) + (float(log2) - float(first)) * (float(last_x) - float(first_x)) / (float(last) - float(first))
            self.assertAlmostEqual(float(x), line, places=3)

    def test_tables_and_pictures_are_saved(self):
        self.tab.open("#number?v=0.1")
        rows = list(csv.reader(io.StringIO(self.tab.save("save-all-formats-csv").decode())))
        for row, expected in zip(rows[1:], native_json("show", "0.1", "--json"), strict=True):
            self.equal("CSV", row[1], expected["code"], row[0])
            self.equal("CSV", row[2], expected["value"], row[0])
        self.assertEqual(xml.etree.ElementTree.fromstring(self.tab.save("save-ruler-svg")).tag, "{http://www.w3.org/2000/svg}svg")
        self.assertEqual(self.tab.save("save-ruler-png")[:8], b"\x89PNG\r\n\x1a\n")


# ---- view 2 ----
class TheFormatDesigner(Case):
    link = "#designer"
    limits = ("bits", "exponent_bits", "mantissa_bits", "bias", "max", "lowest", "min_normal", "min_subnormal", "epsilon", "decades",
              "has_zero", "has_sign", "has_inf", "has_nan", "source")  # fmt: skip

    def compare(self):
        shown = self.tab.read()
        name = shown["design-name"]["text"].split(":")[0]
        [row] = native_json("formats", "--json", "--", name)
        for key in self.limits:
            value = str(row[key]).lower() if isinstance(row[key], bool) else row[key]
            self.equal("limit", shown[f"{key}-{name}"]["value"], value, f"{name}, {key}")
        return name, row

    def compare_dots(self, name, bits):
        codes = [hex(code) for code in range(2**bits)]
        rows = native_json("show", "--from", name, "--formats", name, "--json", "--", *codes)
        positive = {row["code"]: row["value"] for row in rows if row["class"] not in ("nan", "inf") and float(row["value"]) > 0}
        drawn = self.tab.page.eval_on_selector_all('[data-test="values"] circle.dot', "(all) => all.map((n) => [n.dataset.code, n.dataset.value, n.getAttribute('cx')])")
        drawn = drawn[:len(positive)]  # the first format is drawn first
        self.assertEqual({code: value for code, value, _ in drawn}, positive, name)
        COMPARED["dot of a format"] = COMPARED.get("dot of a format", 0) + len(positive)
        places = [float(x) for _, value, x in sorted(drawn, key=lambda dot: float(dot[1]))]
        self.assertEqual(places, sorted(places), name)

    def test_limits_and_values_of_formats_by_hand(self):
        dice = random.Random(SEED + 2)
        for turn in range(24):
            e, m, specials = dice.randint(2, 8), dice.randint(1, 7), dice.choice(("inf", "nan", "none", "uz"))
            if turn == 0:
                self.tab.type("design-e", str(e))
                self.tab.type("design-m", str(m))
                self.tab.at("design-specials").select_option(specials)
                self.tab.settle()
            else:
                self.tab.open(f"#designer?e={e}&m={m}&specials={specials}&beside={dice.choice(('none', 'fp16', 'e4m3,int8'))}")
            problem = self.tab.read()["design-error"]["text"].strip()
            if problem:
                self.assertRegex(problem, "names a format with other specials|unknown format|accepted", f"e{e}m{m} {specials}")
                continue
            name, row = self.compare()
            self.assertEqual((row["exponent_bits"], row["mantissa_bits"], row["has_inf"]), (e, m, specials == "inf"))
            if row["bits"] <= 9:
                self.compare_dots(name, row["bits"])

    def test_a_start_from_every_format_and_its_card(self):
        for row in FORMATS:
            if row["name"] not in self.tab.at("design-start").locator("option").all_text_contents():
                continue
            self.tab.at("design-start").select_option(row["name"])
            self.tab.settle()
            if self.tab.read()["design-error"]["text"].strip():
                continue
            name, made = self.compare()
            self.assertEqual(made["max"], row["max"], row["name"])
            cells = self.tab.page.eval_on_selector_all('[data-test="card"] tbody tr', "(all) => all.map((r) => [...r.cells].map((c) => c.dataset.value ?? c.textContent))")
            asked = [str(row[key]) for key in ("max", "lowest", "min_normal", "min_subnormal") if row[key] is not None]
            for cell, expected in zip(cells, native_json("show", "--formats", name, "--json", "--", *asked, "1", "0", "-0", "inf", "nan"), strict=True):
                self.equal("card", cell[1], expected["value"], f"{name}, {cell[0]}")
                self.equal("card", cell[3], expected["code"], f"{name}, {cell[0]}")

    def test_formats_beside_it_come_and_go_and_the_link_keeps_them(self):
        self.tab.open("#designer?e=3&m=4&beside=none")
        for name in ("fp16", "e5m2", "bf16"):
            self.tab.at(f"beside-{name}").click()
            self.tab.settle()
        self.tab.at("beside-e5m2").click()
        self.tab.settle()
        self.assertIn("beside=fp16,bf16", self.tab.hash())
        for name in ("fp16", "bf16"):
            self.equal("limit", self.tab.read()[f"max-{name}"]["value"], native_json("formats", "--json", name)[0]["max"], name)
        self.assertNotIn("max-e5m2", self.tab.read())

    def test_the_number_view_takes_the_format(self):
        self.tab.open("#designer?e=5&m=3&specials=nan&beside=none")
        name = self.tab.read()["design-name"]["text"].split(":")[0]
        self.tab.at("open-number").click()
        self.tab.settle()
        self.equal("number x format", self.tab.read()[f"code-{name}"]["text"], native_json("show", "0.1", "--formats", name, "--json")[0]["code"], name)


# ---- view 3 ----
def histogram_of(rows):
    found = {}
    for row in rows:
        counts = found.setdefault(row["tensor"], {})
        counts[row["exponent"]] = counts.get(row["exponent"], 0) + row["negative"] + row["positive"]
    return found


def values_near(values, limit, scale):
    """How many lie in the bins (1/128 of a binade each) beside a limit, where counts cannot tell."""
    return sum(1 for value in values if value and abs(abs(value) * scale / limit - 1) <= 2 / 128)


def limits_of(row):
    """Where values become zero, subnormal and too large in nearest-even, from the table of formats."""
    smallest = row["min_subnormal"] if row["min_subnormal"] is not None else row["min_normal"]
    step_of_largest = row["epsilon"] * 2.0 ** math.floor(math.log2(row["max"]))
    return {"underflow": [smallest / 2], "subnormal": [smallest / 2, row["min_normal"] - smallest / 2], "overflow": [row["max"] + step_of_largest / 2]}


class TheTensorsView(Case):
    link = "#tensors"
    formats = ("fp16", "bf16", "e4m3", "e5m2")
    losses = ("underflow", "subnormal", "overflow")

    @classmethod
    def setUpClass(cls):
        cls.files = tensor_files()
        for name, data in cls.files.items():
            (WORK / name).write_bytes(data)
        super().setUpClass()

    def tensors_of(self, name, folder=None):
        rows = native_json("inspect", name, "--json", folder=folder or WORK)
        return [t for t in (rows[0] if isinstance(rows, list) else rows)["tensors"]]

    def rows_shown(self):
        return self.tab.page.eval_on_selector_all('[data-test^="tensors-row-"]', "(all) => all.map((n) => [n.dataset.place, n.textContent])")

    def choose(self, place):
        if self.tab.at(f"tensors-row-{place}").count():
            self.tab.at(f"tensors-row-{place}").click()
            self.tab.settle()

    def compare_histogram(self, name, path=None, folder=None):
        """Every tensor of the file that is open, and all of them together."""
        expected = histogram_of(native_json("histogram", path or name, "--json", folder=folder or WORK))
        rows = self.rows_shown()
        for place, title in rows if ALL else rows[:7]:
            self.choose(place)
            tensor = title if title in expected else next(iter(expected))
            wanted = expected[tensor]
            if place == "-1":
                [wanted] = histogram_of(native_json("histogram", path or name, "--total", "--json", folder=folder or WORK)).values()
            bars, shown = self.tab.bars(), self.tab.read()["tensors-facts"]["text"].replace(SHORT_SPACE, "")
            numbers = {exponent: count for exponent, count in wanted.items() if isinstance(exponent, int) and count}
            for exponent in sorted({*bars, *numbers}):
                self.equal("binade", str(bars.get(exponent, 0)), numbers.get(exponent, 0), f"{name}, {title}, 2^{exponent}")
            for word, pattern in (("zero", r"(\d+) zeros"), ("inf", r"(\d+) Inf"), ("nan", r"(\d+) NaN"), ("subnormal", r"(\d+) subnormal")):
                found = re.search(pattern, shown)
                self.equal("binade", found[1] if found else "0", wanted.get(word, 0), f"{name}, {title}, {word}")
        return [title for place, title in rows if place != "-1"]

    def set_scale(self, k):
        """By keys: a page is a tenth of the slider's 70 steps."""
        far = k - int(self.tab.at("tensors-scale").input_value())
        pages = round(far / 7)
        self.tab.at("tensors-scale").focus()
        self.tab.press(*["PageUp" if pages > 0 else "PageDown"] * abs(pages), *["ArrowRight" if far > 7 * pages else "ArrowLeft"] * abs(far - 7 * pages))
        self.assertEqual(self.tab.read()["tensors-scale-text"]["text"], f"2^{k}")

    def stats(self, what, k, formats=None, *more):
        rows = native_json("stats", what, "--formats", ",".join(formats or self.formats), "--scale", f"2^{k}", "--json", *more, folder=WORK)
        return {row["format"]: row for row in rows}

    def compare_losses(self, kind, expected, where, values=None, scale=1.0):
        """values: where counts in bins decide, those beside a limit may fall on either side of it."""
        shown = self.tab.read()
        for name, row in expected.items():
            for loss in self.losses:
                cell = shown[f"tensors-{loss}-{name}"]["value"]
                near = 0
                if values is not None:
                    near = sum(values_near(values, limit, scale) for limit in limits_of(BY_NAME[name])[loss])
                if near == 0:
                    self.equal(kind, cell, row[loss], f"{where}, {name}, {loss}")
                else:
                    COMPARED[kind] = COMPARED.get(kind, 0) + 1
                    self.assertLessEqual(abs(int(cell) - row[loss]), near, f"{where}, {name}, {loss}: {cell}, not {row[loss]} +- {near}")

    def open_files(self, *names):
        self.tab.open("#tensors")
        self.tab.drop({name: self.files[name] for name in names})
        self.assertEqual(self.tab.page.locator('[data-test="tensors-errors"] li').all_text_contents(), [])

    def test_binades_of_every_kind_of_file(self):
        for name in self.files:
            self.open_files(name)
            tensors = self.compare_histogram(name)
            floating = [row["tensor"] for row in native_json("stats", name, "--formats", "fp16", "--sort", "name", "--json", folder=WORK)]
            self.assertEqual(len(tensors), len(floating), name)

    def test_binades_of_recorded_gradients(self):
        for name in ("step0.safetensors",) if not ALL else ("step0.safetensors", "step300.safetensors", "step1000.safetensors"):
            with self.tab.page.expect_file_chooser() as chooser:
                self.tab.at("tensors-files-button").click()
            chooser.value.set_files(ROOT / "data/torch" / name)
            self.tab.settle()
            self.compare_histogram(name, folder=ROOT / "data/torch")

    def test_exact_numbers_at_several_scales(self):
        for name in ("mixed.safetensors", "deflated.npz", "columns.npy"):
            self.open_files(name)
            for place, title in [row for row in self.rows_shown() if row[0] != "-1"][:5]:
                for k in (0, 7) if place == "0" else ((-5, 20, 33, -14)[int(place) - 1],):
                    self.choose(place)
                    self.set_scale(k)
                    self.tab.at("tensors-exact").click()
                    self.tab.settle()
                    what = f"{name}:{title}" if len(self.rows_shown()) > 1 else name
                    expected = self.stats(what, k)
                    self.compare_losses("exact loss", expected, f"{what} at 2^{k}")
                    shown = self.tab.read()
                    self.assertIn("Exact", shown["tensors-kind"]["text"])
                    for f, row in expected.items():  # sums of squares may be added in another order
                        COMPARED["exact loss"] += 1
                        self.assertTrue(close(shown[f"tensors-sqnr-{f}"]["value"], row["sqnr_db"], 1e-9), f"{what}, {f}: {shown[f'tensors-sqnr-{f}']} {row['sqnr_db']}")

    def test_dragged_counts_of_bf16_and_narrower_are_exact(self):
        """Their bins hold one value each."""
        for name, tensors in (("mixed.safetensors", ("c.bf16", "d.e4m3", "e.e5m2")),):
            self.open_files(name)
            for k in (-20, -6, 0, 11, 26):
                self.set_scale(k)
                for place, title in self.rows_shown():
                    if title in tensors:
                        self.choose(place)
                        self.compare_losses("dragged count", self.stats(f"{name}:{title}", k), f"{title} at 2^{k}")

    def test_dragged_counts_of_float32_are_right_but_for_the_bin_at_a_limit(self):
        self.open_files("plain.npy")
        values = struct.unpack("<5000f", self.files["plain.npy"][-20000:])
        for k in range(-12, 34, 3):
            self.set_scale(k)
            self.compare_losses("dragged count", self.stats("plain.npy", k), f"plain.npy at 2^{k}", values, 2.0**k)

    def test_the_slider_follows_the_mouse_and_numbers_follow_it(self):
        self.open_files("mixed.safetensors")
        self.choose(next(place for place, title in self.rows_shown() if title == "c.bf16"))
        self.set_scale(0)
        slider = self.tab.at("tensors-scale")
        slider.scroll_into_view_if_needed()
        box = slider.bounding_box()
        x_of = lambda k: box["x"] + 8 + (k + 30) / 70 * (box["width"] - 16)
        mouse = self.tab.page.mouse
        mouse.move(x_of(0), box["y"] + box["height"] / 2)
        mouse.down()
        seen = set()
        for k in (2, 5, 9, 14, 11, -8):
            mouse.move(x_of(k), box["y"] + box["height"] / 2, steps=3)
            self.tab.settle()
            now = int(self.tab.read()["tensors-scale-text"]["text"][2:])
            self.assertAlmostEqual(now, k, delta=1)
            seen.add(now)
            self.compare_losses("dragged count", self.stats("mixed.safetensors:c.bf16", now), f"while dragging, 2^{now}")
        mouse.up()
        self.assertGreater(len(seen), 4)
        self.assertIn(f"scale={now}", self.tab.hash())

    def test_the_picture_is_dragged_too(self):
        self.open_files("mixed.safetensors")
        self.choose(next(place for place, title in self.rows_shown() if title == "d.e4m3"))
        self.set_scale(0)
        picture = self.tab.at("tensors-histogram")
        picture.scroll_into_view_if_needed()
        box = picture.bounding_box()
        middle = box["y"] + box["height"] / 2
        self.tab.page.mouse.move(box["x"] + box["width"] / 2, middle)
        self.tab.page.mouse.down()
        self.tab.page.mouse.move(box["x"] + box["width"] / 2 - 150, middle, steps=8)
        self.tab.settle()
        now = int(self.tab.read()["tensors-scale-text"]["text"][2:])
        self.assertGreater(now, 2)
        self.compare_losses("dragged count", self.stats("mixed.safetensors:d.e4m3", now), f"picture at 2^{now}")
        self.tab.page.mouse.up()
        self.tab.settle()

    def test_large_tensors_counted_in_parts_are_counted_as_a_whole(self):
        """Several engines read them as streams; what they find together is what one finds, and what the program finds."""
        dice = random.Random(SEED + 1)
        special = [0.0, -0.0, math.inf, -math.inf, math.nan, 1e-40, -3e-42, 3.4e38]
        block = gradients(dice, 4096 - len(special)) + special
        single, half = bytes_of(block, "F32"), bytes_of([value if abs(value) <= 65504 else 0.0 for value in block], "F16")
        plain = bytes_of(gradients(dice, 4096, 3, 2), "F32")
        parts = [("a.f32", "F32", [4096 * 1100], single * 1100), ("b.small", "F32", [4096], plain), ("c.f16 \"'<b>\x1b[31m\u202e", "F16", [4096 * 1031], half * 1031),
                 ("d.f64", "F64", [4096 * 190], struct.pack("<4096d", *(0.1 * value for value in gradients(dice, 4096))) * 190), ("e.plain", "F32", [4096 * 300 + 1], plain * 300 + plain[:4])]  # fmt: skip
        files = {"large-1.safetensors": safetensors(parts[:2]), "large-2.safetensors": safetensors(parts[2:])}
        for name, data in files.items():
            (WORK / name).write_bytes(data)
        self.tab.page.evaluate("() => document.body.append(Object.assign(document.createElement('input'), {type: 'file', id: 'large', multiple: true}))")
        self.tab.page.set_input_files("#large", [WORK / name for name in files])
        found = json.loads(self.tab.page.evaluate("""async () => {
          await engine.clear();
          const paths = await engine.add([...document.getElementById("large").files]), told = [];
          const counted = await engine.count(paths, (progress) => told.push(progress)), at = await engine.at(3, ["fp16", "e4m3"]);
          const whole = await engine.json(["count", ...paths]), at_whole = await engine.at(3, ["fp16", "e4m3"]);
          // What is opened while a count goes on is what the engine answers for.
          const stale = engine.count(paths).then(() => "counted", (problem) => problem.message);
          await engine.clear();
          const [small] = await engine.add([new File([new Uint8Array(
            [147, 78, 85, 77, 80, 89, 1, 0, 56, 0, ...[..."{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}"].map((c) => c.charCodeAt(0)),
             10, 0, 0, 128, 63, 0, 0, 0, 64])], "two.npy")]);
          const two = await engine.count([small]), said = await stale, at_two = await engine.at(0, ["fp16"]);
          document.getElementById("large").remove();
          return JSON.stringify({parts: counted.parts.length, counted: counted.tensors, whole: whole.tensors, at, at_whole, told, bytes: counted.bytes,
                                 said, two: two.tensors.length, at_two: at_two.tensors.length});
        }"""))  # fmt: skip
        self.assertEqual(found["parts"], 4, "tensors that are counted in parts")
        self.assertEqual(found["counted"], found["whole"])
        self.assertEqual(found["at"], found["at_whole"])
        self.assertEqual((found["said"], found["two"], found["at_two"]), ("another file was opened", 1, 1))
        self.assertEqual(found["told"][-1], {"done": found["bytes"], "total": found["bytes"]})
        expected = histogram_of(native_json("histogram", *files, "--json", folder=WORK))
        for tensor in found["counted"]:
            wanted = expected[tensor["name"]]
            for place, count in enumerate(tensor["binades"]):
                self.equal("binade in parts", str(count), wanted.get(tensor["min_exponent"] + place, 0), f"{tensor['name']}, {place}")
            for word, key in (("zero", "zeros"), ("inf", "inf"), ("nan", "nan"), ("subnormal", "subnormal")):
                self.equal("binade in parts", str(tensor[key]), wanted.get(word, 0), f"{tensor['name']}, {word}")
        for name in files:
            (WORK / name).unlink()
        self.tab.page.reload()
        self.tab.settle()

    def test_all_tensors_together(self):
        self.open_files("mixed.safetensors")
        self.choose("-1")
        for k in (0, 6):
            self.set_scale(k)
            values = self.float_values("mixed.safetensors")
            self.compare_losses("dragged count", self.stats("mixed.safetensors", k, None, "--total"), f"all at 2^{k}", values, 2.0**k)

    def float_values(self, name):
        data = self.files[name]
        header = json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])
        begin = 8 + struct.unpack("<Q", data[:8])[0]
        first, last = header["a.f32"]["data_offsets"]
        f16_first, f16_last = header["b.f16"]["data_offsets"]
        halves = struct.unpack(f"<{(f16_last - f16_first) // 2}e", data[begin + f16_first:begin + f16_last])
        values = [*struct.unpack(f"<{(last - first) // 4}f", data[begin + first:begin + last]), *halves, 0.1]
        return [value for value in values if math.isfinite(value)]

    def test_block_formats(self):
        self.open_files("plain.npy")
        names = ("mxfp8_e4m3", "nvfp4", "mxfp4")
        self.tab.at("tensors-blocks-mxfp4").click()
        self.tab.settle()
        for k in (0, 12):
            self.set_scale(k)
            self.tab.open(f"#tensors?scale={k}&blocks={','.join(names)}")
            expected, shown = self.stats("plain.npy", k, names), self.tab.read()
            for name in names:
                for loss in self.losses:
                    self.equal("block format", shown[f"tensors-block-{loss}-{name}"]["value"], expected[name][loss], f"{name} at 2^{k}, {loss}")
                COMPARED["block format"] += 1
                self.assertTrue(close(shown[f"tensors-block-sqnr-{name}"]["value"], expected[name]["sqnr_db"], 1e-9), name)

    def test_the_best_scale_is_the_programs(self):
        self.open_files("plain.npy")
        rows = native_json("stats", "plain.npy", "--formats", ",".join(self.formats), "--scale", "auto", "--json", folder=WORK)
        shown = self.tab.read()
        for row in rows:
            self.equal("best scale", shown[f"tensors-best-{row['format']}"]["value"], math.log2(row["scale"]), row["format"])
        self.tab.at("tensors-best-fp16").click()
        self.tab.settle()
        self.assertEqual(self.tab.read()["tensors-scale-text"]["text"], f"2^{shown['tensors-best-fp16']['value']}")

    def test_several_files_the_list_its_filter_and_its_keys(self):
        self.open_files("plain.npy", "halves.npy", "mixed.safetensors")
        rows = self.rows_shown()
        self.assertEqual(len(rows), 1 + 1 + 1 + 6)
        self.tab.type("tensors-filter", "mixed.safetensors:c")
        self.assertEqual([title for _, title in self.rows_shown()], ["mixed.safetensors:c.bf16"])
        self.tab.type("tensors-filter", "mixed")
        self.tab.at("tensors-list").focus()
        chosen = lambda: [n for _, n in self.tab.page.eval_on_selector_all('[data-test^="tensors-row-"][aria-pressed="true"]', "(all) => all.map((n) => [n.dataset.place, n.textContent])")]
        self.tab.at("tensors-row-2").click()
        self.tab.settle()
        self.tab.press("ArrowDown")
        first = chosen()
        self.tab.press("ArrowDown", "ArrowUp")
        self.assertEqual(chosen(), first)
        self.assertEqual(len(first), 1)
        self.tab.type("tensors-filter", " ")
        self.tab.at("tensors-filter").fill("")
        for name in ("underflow", "name", "file"):
            self.tab.at("tensors-sort").select_option(name)
            self.tab.settle()
            self.assertEqual(len(self.rows_shown()), len(rows))

    def test_the_list_shows_what_each_tensor_loses(self):
        self.open_files("mixed.safetensors")
        self.set_scale(4)
        wanted = {(row["tensor"], row["format"]): row for row in native_json("stats", "mixed.safetensors", "--formats", ",".join(self.formats), "--scale", "2^4", "--json", folder=WORK)}
        for metric in self.losses:
            self.tab.at("tensors-show").select_option(metric)
            self.tab.settle()
            shown = self.tab.read()
            for place, title in self.rows_shown():
                if title in ("c.bf16", "d.e4m3", "e.e5m2"):
                    for f in self.formats:
                        self.equal("dragged count", shown[f"tensors-cell-{place}-{f}"]["value"], wanted[title, f][metric], f"{title}, {f}, {metric}")

    def test_a_link_holds_the_scale_and_asks_for_its_file(self):
        self.open_files("mixed.safetensors")
        self.choose(next(place for place, title in self.rows_shown() if title == "c.bf16"))
        self.set_scale(5)
        link = self.tab.hash()
        other = Tab(link)
        try:
            self.assertIn("open mixed.safetensors here", other.at("tensors-link-note").text_content())
            other.drop({"mixed.safetensors": self.files["mixed.safetensors"]})
            self.assertFalse(other.at("tensors-link-note").is_visible())
            self.assertEqual(other.read()["tensors-chosen"]["text"], "c.bf16")
            self.assertEqual(other.read()["tensors-scale-text"]["text"], "2^5")
            self.assertEqual(other.complaints, [])
        finally:
            other.close()

    def test_csv_of_the_histogram_and_of_the_table(self):
        self.open_files("plain.npy")
        self.set_scale(0)
        [counts] = histogram_of(native_json("histogram", "plain.npy", "--json", folder=WORK)).values()
        rows = list(csv.reader(io.StringIO(self.tab.save("save-tensors-histogram-csv").decode())))
        for _, exponent, count in rows[1:]:
            key = {"zeros": "zero"}.get(exponent, exponent)
            self.equal("CSV", count, counts.get(int(key) if re.fullmatch(r"-?\d+", key) else key, 0), exponent)
        self.assertEqual(xml.etree.ElementTree.fromstring(self.tab.save("save-tensors-histogram-svg")).tag, "{http://www.w3.org/2000/svg}svg")

    def test_a_folder_is_dropped_and_opened(self):
        folder = WORK / "folder"
        (folder / "deep").mkdir(parents=True, exist_ok=True)
        (folder / "a.npy").write_bytes(self.files["plain.npy"])
        (folder / "deep/b.npy").write_bytes(self.files["halves.npy"])
        (folder / "notes.txt").write_text("no tensor")
        self.tab.open("#tensors")
        self.tab.drop_from_disk([folder], "2 tensors, 8\u202f000 values")
        self.assertEqual([title for place, title in self.rows_shown() if place != "-1"], ["folder/a.npy:a", "folder/deep/b.npy:b"])
        self.tab.drop_from_disk([WORK / "columns.npy"], "1 tensor, 4\u202f000 values")
        self.compare_histogram("columns.npy")
        self.tab.give("tensors-folder", folder)
        self.assertEqual(sorted(title for place, title in self.rows_shown() if place != "-1"), ["folder/a.npy:a", "folder/deep/b.npy:b"])

    def test_shards_and_their_index_are_counted_once(self):
        names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
        files = {name: safetensors([(f"layer.{i}", "F32", [1000], bytes_of(gradients(random.Random(i), 1000), "F32"))], {}) for i, name in enumerate(names)}
        index = {"metadata": {}, "weight_map": {f"layer.{i}": name for i, name in enumerate(names)}}
        self.tab.drop({"model.safetensors.index.json": json.dumps(index).encode(), **files})
        self.assertIn("2 tensors, 2\u202f000 values", self.tab.read()["tensors-status"]["text"])
        self.tab.drop(files)
        self.assertIn("2 tensors, 2\u202f000 values", self.tab.read()["tensors-status"]["text"])

    def test_a_tensor_of_nan_and_inf_has_no_largest_value(self):
        values = [math.nan, math.inf, -math.inf, math.nan]
        self.tab.drop({"bad.safetensors": safetensors([("a\"'\u202e\x1b", "F32", [4], struct.pack("<4f", *values))], {})})
        shown = self.tab.read()
        self.assertEqual(shown["tensors-row-0"]["text"], "a\"'\\u202E\\x1B")  # and its name steers nothing
        self.assertEqual(shown["tensors-facts"]["text"], "4 values: 0 zeros, 2 Inf, 2 NaN; largest -, smallest -")
        for name in ("underflow", "subnormal", "overflow"):
            self.assertEqual(shown[f"tensors-{name}-fp16"]["value"], "0")
        self.assertEqual(shown["tensors-sqnr-fp16"]["text"], "-")

    def test_a_watched_run_shows_its_counts(self):
        run = ROOT / "data/watched-run"
        self.tab.open("#tensors?formats=fp16,e4m3")
        self.tab.give("tensors-folder", run)
        self.compare_histogram("watched-run", path="data/watched-run", folder=ROOT)
        shown, places = self.tab.read(), {title: place for place, title in self.rows_shown()}
        for row in native_json("stats", "data/watched-run", "--formats", "fp16,e4m3", "--sort", "name", "--json", folder=ROOT):
            place = places.get(row["tensor"])
            if place is None:  # out of sight
                continue
            self.equal("watched run", shown[f"tensors-cell-{place}-{row['format']}"]["value"], row["underflow"], row["tensor"])
        # A scale at which nothing was watched: the program's sentence, and no numbers of another scale.
        said = sentence_of("stats", "data/watched-run", "--formats", "fp16,e4m3", "--scale", "2^3", "--sort", "name", "--json", folder=ROOT)
        self.set_scale(3)
        shown = self.tab.read()
        self.equal("sentence", shown["tensors-kind"]["text"].replace("/files/watched-run", "data/watched-run"), said, "2^3")
        for place in places.values():
            for name in ("fp16", "e4m3"):
                self.assertEqual(shown[f"tensors-cell-{place}-{name}"]["text"], "-", place)


# ---- view 4 ----
class TheTensorCoreView(Case):
    link = "#core"

    def operand(self, dice, special=0.03):
        if dice.random() < special:
            return dice.choice(("inf", "-inf", "nan", "0", "-0"))
        sign = dice.choice(("", "-"))
        return dice.choice((f"{sign}{1 + dice.random():.3f}*2^{dice.randint(-9, 4)}", f"{sign}2^{dice.randint(-14, 6)}", f"{sign}{dice.random():.4f}",
                            f"{sign}0x1.{dice.randrange(4096):03x}p{dice.randint(-8, 5)}"))  # fmt: skip

    def problem(self, dice):
        n = dice.choice((1, 2, 3, 4, 7, 8, 16, 33))
        special = dice.choice((0, 0, 0, 0.05))
        return [self.operand(dice, special) for _ in range(n)], [self.operand(dice, special) for _ in range(n)], dice.choice(("0", self.operand(dice, 0)))

    def compare(self, models, a, b, c):
        shown, results = self.tab.read(), []
        for i, model in enumerate(models, 1):
            done = native("dot", f"--model={model}", f"--a={','.join(a)}", f"--b={','.join(b)}", f"--c={c}", "--json")
            if done.returncode:
                self.equal("dot", shown[f"core-error-{i}"]["text"], done.stderr.strip().removeprefix("narrow: "), model)
                continue
            row = json.loads(done.stdout)
            where = f"{model}, a {a}, b {b}, c {c}"
            self.assertFalse(shown[f"core-error-{i}"]["shown"], f"{where}: {shown[f'core-error-{i}']['text']}")
            self.equal("dot", shown[f"core-code-{i}"]["text"], row["result"]["code"], where)
            self.equal("dot", shown[f"core-value-{i}"]["value"], row["result"]["value"], where)
            self.equal("dot", shown[f"core-hex-{i}"]["text"], row["result"]["hex_float"], where)
            self.equal("dot", shown[f"core-exact-{i}"]["value"], row["exact"]["code"], where)
            self.equal("dot", shown[f"core-ulp-{i}"]["value"], row["error_ulp"], where)
            results.append(row)
        if len(results) == 2:
            same_value = results[0]["result"]["hex_float"] == results[1]["result"]["hex_float"]
            self.equal("verdict", str(shown["core-verdict"]["text"].startswith("Both give the same")), str(same_value), models)
            if not same_value:
                self.assertIn(results[0]["exact"]["unrounded"], shown["core-verdict"]["text"])
        return results

    def link_of(self, models, a, b, c):
        quote = lambda text: text.replace("+", "%2B").replace("*", "%2A").replace("^", "%5E")
        return f"#core?m1={models[0]}&m2={models[1]}&a={quote(','.join(a))}&b={quote(','.join(b))}&c={quote(c)}"

    def test_models_on_random_operands(self):
        dice = random.Random(SEED + 3)
        names = [row["name"] for row in MODELS[::1 if ALL else 5]]
        dice.shuffle(names)
        names += names[:len(names) % 2]
        for pair in zip(names[::2], names[1::2]):
            a, b, c = self.problem(dice)
            self.tab.open(self.link_of(pair, a, b, c))
            self.compare(pair, a, b, c)

    def test_models_that_share_their_operands_and_may_differ(self):
        dice = random.Random(SEED + 4)
        names = [row["name"] for row in MODELS if row["a"] == "f16" and row["b"] == "f16" and row["accumulator"] == "f32"]
        differing = 0
        for _ in range(20):
            pair, (a, b, c) = dice.sample(names, 2), self.problem(dice)
            self.tab.open(self.link_of(pair, a, b, c))
            results = self.compare(pair, a, b, c)
            differing += len({row["result"]["hex_float"] for row in results}) == 2
        self.assertGreater(differing, 1)

    def test_typed_operands_and_chosen_models(self):
        dice = random.Random(SEED + 5)
        self.tab.open("#core?a=1&b=1")
        for turn in (0, 2) if ALL else (1,):
            pair = [dice.choice([row for row in MODELS if not row["scale_block"]]) for _ in range(2)]
            for i, row in enumerate(pair, 1):
                self.tab.at(f"core-generation-{i}").select_option(row["generation"])
                self.tab.settle()
                self.tab.at(f"core-model-{i}").select_option(row["name"])
                self.tab.settle()
            while self.tab.at("core-operands").locator("tbody tr").count() < turn + 2:
                self.tab.at("core-add").click()
                self.tab.settle()
            n = turn + 2
            a, b, c = [self.operand(dice, 0) for _ in range(n)], [self.operand(dice, 0) for _ in range(n)], self.operand(dice, 0)
            for k in range(n):
                self.tab.type(f"core-a-{k}", a[k])
                self.tab.paste(f"core-b-{k}", b[k])
            self.tab.type("core-c", c)
            self.compare([row["name"] for row in pair], a, b, c)
        self.tab.at("core-remove-0").click()
        self.tab.settle()
        self.compare([row["name"] for row in pair], a[1:], b[1:], c)

    def test_presets_steps_and_phases(self):
        for preset in ("cancellation", "one", "truncation", "fp8"):
            self.tab.at(f"core-preset-{preset}").click()
            self.tab.settle()
            shown = self.tab.read()
            n = self.tab.at("core-operands").locator("tbody tr").count()
            a, b = ([shown[f"core-{key}-{k}"]["text"] for k in range(n)] for key in "ab")
            models = [shown[f"core-model-{i}"]["text"] for i in (1, 2)]
            results = self.compare(models, a, b, shown["core-c"]["text"])
            self.compare_walk(results)

    def compare_walk(self, results):
        """From the first picture to the last: each says what the program says of that step."""
        steps = max(len(row["steps"]) for row in results)
        self.tab.at("core-phase-align").click()
        self.tab.settle()
        for place in range(min(steps, 2)):
            for phase in ("align", "cut", "add", "round"):
                self.assertEqual(self.tab.read()[f"core-phase-{phase}"]["pressed"], "true")
                self.assertEqual(self.tab.read()["core-where"]["text"], f"step {place + 1} of {steps}")
                for i, row in enumerate(results, 1):
                    step = row["steps"][min(place, len(row["steps"]) - 1)]
                    if step.get("terms") and not step["special"]:
                        said = self.tab.at(f"core-picture-{i}").locator("text.faint").last.text_content()
                        words = {"align": f"2^{step['quantum_exponent']}", "cut": "cut", "add": f"add up to {step['sum']} * 2^{step['quantum_exponent']}",
                                 "round": step["result"]["code"] if step.get("result") else "goes on"}[phase]  # fmt: skip
                        COMPARED["step"] = COMPARED.get("step", 0) + 1
                        self.assertIn(words, said)
                self.tab.at("core-next").click()
                self.tab.settle()
        words = native("dot", f"--model={results[0]['model']}", f"--a={','.join(x['input'] for x in results[0]['a'])}",
                       f"--b={','.join(x['input'] for x in results[0]['b'])}", f"--c={results[0]['c']['input']}", "--explain")  # fmt: skip
        self.equal("explain", self.tab.read()["core-explain-1"]["text"], words.stdout, results[0]["model"])

    def test_drawn_bits_are_those_of_the_terms(self):
        """Each row of cells, read back as a binary number, is the integer that the program kept."""
        dice = random.Random(SEED + 6)
        for _ in range(6):
            a, b = [self.operand(dice, 0) for _ in range(4)], [self.operand(dice, 0) for _ in range(4)]
            models = ("hopper.mma.f32.f16.f16.k16", "ampere.mma.f32.f16.f16.k16")
            self.tab.open(self.link_of(models, a, b, "0.5") + "&stage=1&phase=add")
            results = self.compare(models, a, b, "0.5")
            rows = self.tab.page.eval_on_selector_all('[data-test="core-picture-1"] text', "(all) => all.map((n) => [n.getAttribute('class'), n.textContent, +n.getAttribute('y'), +n.getAttribute('x')])")
            line = self.tab.page.eval_on_selector('[data-test="core-picture-1"] line.quantum', "(n) => +n.getAttribute('x1')")
            step = results[0]["steps"][0]
            for label, y in [(text, y) for kind, text, y, _ in rows if kind == "cell-label"]:
                bits = "".join(text for kind, text, at, x in rows if kind.startswith("cell-text") and at == y and x < line and text in "01")
                name = label[2:]
                wanted = step["sum"] if name == "sum" else next((t["kept"] for t in step["terms"] if t["term"] == name), None)
                if wanted is not None:
                    self.equal("drawn bits", str(int(bits or "0", 2)), abs(wanted), f"{name} of {a} {b}")

    def test_scales_of_block_models(self):
        model = next(row for row in MODELS if row["scale_block"] and "e4m3" in row["a"])
        self.tab.open(f"#core?m1={model['name']}&m2=none&a=1,2&b=3,0.5")
        self.tab.type("core-sa", "2^3")
        row = native_json("dot", f"--model={model['name']}", "--a=1,2", "--b=3,0.5", "--scale-a=2^3", "--json")
        self.equal("dot", self.tab.read()["core-code-1"]["text"], row["result"]["code"], model["name"])

    def test_what_cannot_be_computed_gets_the_sentence_of_the_program(self):
        model = "hopper.mma.f32.f16.f16.k16"
        self.tab.open(f"#core?m1={model}&m2=none&a=1,x&b=1,1")
        self.equal("sentence", self.tab.read()["core-error-1"]["text"], sentence_of("dot", f"--model={model}", "--a=1,x", "--b=1,1", "--c=0", "--json"), "x")
        self.tab.open("#core?m1=nothing&m2=none&a=1&b=1")
        self.equal("sentence", self.tab.read()["core-error-1"]["text"], sentence_of("dot", "--model=nothing", "--a=1", "--b=1", "--c=0", "--json"), "nothing")


# ---- view 5 ----
class TheLossScaleView(Case):
    link = "#scale"

    def events(self, steps, at, usual):
        marked = set()
        for word in at.split(","):
            if word and word != "none":
                first, _, last = word.partition("-")
                marked.update(range(int(first), min(int(last or first), steps - 1) + 1))
        return "step,amax\n" + "".join(f"{i},{'inf' if i in marked else usual}\n" for i in range(steps))

    def compare(self, steps, at, start="", interval="", since=""):
        usual = 2.0 ** (16 - int(since)) if since else 0
        (WORK / "events.csv").write_text(self.events(steps, at, repr(usual)))
        words = ["scale-trace", "--events", "events.csv", "--policy", ",".join(SCALERS), "--json"]
        words += ["--init", start] if start else []
        words += ["--growth-interval", interval] if interval else []
        traces = native_json(*words, folder=WORK)
        shown = self.tab.read()
        for name, rows in traces.items():
            where = f"{name}, {steps} steps, at {at}, init {start}, interval {interval}, from {since}"
            skipped = sum(row["skipped"] is True for row in rows)
            self.equal("scaler", shown[f"scale-skipped-{name}"]["value"], skipped, where)
            self.equal("scaler", shown[f"scale-lost-{name}"]["value"], skipped + steps - len(rows), where)
            for key, row in (("first", rows[0]), ("last", rows[-1])):
                text = shown[f"scale-{key}-{name}"]["text"]
                COMPARED["scaler"] += 1
                self.assertTrue(text == row["scale"] or close(number_of(text), row["scale"], 1e-5), f"{where}: {key} {text}, not {row['scale']}")
        return traces

    def test_random_runs_of_six_scalers(self):
        dice = random.Random(SEED + 7)
        for _ in range(20):
            steps = dice.choice((50, 400, 1000, 5000))
            marks = sorted(dice.sample(range(steps), dice.randint(0, 8)))
            at = ",".join(f"{x}-{min(x + dice.randint(1, 12), steps - 1)}" if dice.random() < 0.3 else str(x) for x in marks) or "none"
            start, interval = dice.choice(("", "", "2^10", "65536", "1000")), dice.choice(("", "", "10", "200"))
            since = dice.choice(("", "", "16", "24"))
            state = {"steps": steps, "at": at, "init": start, "interval": interval, "from": since}
            self.tab.open("#scale?" + "&".join(f"{key}={value}".replace("^", "%5E") for key, value in state.items() if value != ""))
            self.compare(steps, at, start, interval, since)

    def test_typed_settings(self):
        self.tab.open("#scale")
        for test, text in (("scale-steps", "800"), ("scale-at", "10,20-29"), ("scale-init", "2^12"), ("scale-interval", "50")):
            self.tab.type(test, text)
            self.tab.press("Enter")
        self.tab.at("scale-from").select_option("15")
        self.tab.settle()
        self.compare(800, "10,20-29", "2^12", "50", "15")

    def test_presets(self):
        for preset in ("none", "every500", "burst", "random"):
            self.tab.open("#scale")
            self.tab.at(f"scale-preset-{preset}").click()
            self.tab.settle()
            self.compare(5000, self.tab.read()["scale-at"]["text"])

    def test_steps_are_clicked_and_dragged(self):
        self.tab.open("#scale?steps=100&at=none")
        picture = self.tab.at("scale-timeline")
        picture.scroll_into_view_if_needed()
        box = picture.bounding_box()
        x_of = lambda step: box["x"] + 56 + (step + 0.5) / 100 * (box["width"] - 66)
        self.tab.page.mouse.click(x_of(20), box["y"] + 60)
        self.tab.settle()
        self.assertEqual(self.tab.read()["scale-at"]["text"], "20")
        self.tab.page.mouse.move(x_of(40), box["y"] + 60)
        self.tab.page.mouse.down()
        self.tab.page.mouse.move(x_of(47), box["y"] + 60, steps=5)
        self.tab.page.mouse.up()
        self.tab.settle()
        self.assertEqual(self.tab.read()["scale-at"]["text"], "20,40-47")
        self.compare(100, "20,40-47")
        self.tab.page.mouse.click(x_of(20), box["y"] + 60)
        self.tab.settle()
        self.compare(100, "40-47")

    def test_keys_move_mark_and_mark_ranges(self):
        self.tab.open("#scale?steps=100&at=none")
        self.tab.at("scale-timeline").focus()
        self.tab.press("Home", "ArrowRight", "ArrowRight", "Space")
        self.assertEqual(self.tab.read()["scale-at"]["text"], "2")
        self.tab.press("ArrowRight", "ArrowRight", "ArrowRight", "Shift+ArrowRight", "Shift+ArrowRight")
        self.assertEqual(self.tab.read()["scale-at"]["text"], "2,5-7")
        traces = self.compare(100, "2,5-7")
        shown = self.tab.read()
        self.assertIn("step 7", shown["scale-cursor"]["text"])
        for name, rows in traces.items():
            self.equal("scaler", str(number_of(shown[f"scale-now-{name}"]["text"].removesuffix(", skipped"))), float(rows[7]["scale"]), name)

    def test_what_cannot_be_run_gets_a_sentence(self):
        self.tab.open("#scale?steps=100&at=none&init=zero")
        (WORK / "events.csv").write_text(self.events(100, "", "0"))
        expected = sentence_of("scale-trace", "--events", "events.csv", "--policy", ",".join(SCALERS), "--json", "--init", "zero", folder=WORK)
        self.equal("sentence", self.tab.read()["scale-error"]["text"], expected, "zero")
        self.tab.open("#scale?steps=100&at=x")
        self.assertIn('"x" is no step', self.tab.read()["scale-error"]["text"])

    def test_the_csv_holds_every_step(self):
        self.tab.open("#scale?steps=60&at=10-12&interval=10")
        rows = list(csv.DictReader(io.StringIO(self.tab.save("save-scale-timeline-csv").decode())))
        for name, trace in self.compare(60, "10-12", "", "10").items():
            for row, expected in zip(rows, trace):
                self.equal("CSV", row[f"{name} scale"], expected["scale"], f"{name}, step {expected['step']}")


# ---- what is common to all ----
VIEWS = ("number", "designer", "tensors", "core", "scale")


class TheShell(Case):
    def test_the_version_is_the_programs(self):
        self.assertEqual(self.tab.page.locator("#version").text_content(), native("--version").stdout.strip())

    def test_a_policy_forbids_the_network(self):
        policy = self.tab.page.locator('meta[http-equiv="Content-Security-Policy"]').get_attribute("content")
        for rule in ("default-src 'none'", "connect-src 'none'", "base-uri 'none'", "form-action 'none'"):
            self.assertIn(rule, policy)
        for word in ("unsafe-inline", "'unsafe-eval'", "http:", "https:", "*"):
            self.assertNotIn(word, policy)
        other = Tab()
        try:
            tries = ["fetch('http://127.0.0.1:9/x')", "navigator.sendBeacon('http://127.0.0.1:9/x', 'x')", "new Image().src = 'http://127.0.0.1:9/x.png'",
                     "document.body.append(Object.assign(document.createElement('script'), {textContent: 'self.reached = 1'}))",
                     "document.body.setAttribute('onclick', 'self.reached = 1'), document.body.click()"]  # fmt: skip
            for text in tries:
                other.page.evaluate(f"async () => {{ try {{ await ({text}); }} catch {{ }} }}")
            other.page.evaluate("() => new Promise((done) => setTimeout(done, 200))")
            self.assertIsNone(other.page.evaluate("self.reached ?? null"))
            self.assertGreaterEqual(len(other.complaints), 4)
        finally:
            other.close()

    def test_keys_alone_walk_through_all_views(self):
        other = Tab()
        page = other.page
        focused = lambda: page.evaluate("document.activeElement.dataset.test ?? document.activeElement.id ?? ''")
        try:
            page.keyboard.press("Tab")
            self.assertEqual(page.evaluate("document.activeElement.className"), "skip")
            page.keyboard.press("Enter")
            self.assertEqual(focused(), "view")
            other.press("Shift+Tab")
            self.assertEqual(focused(), "tab-number")
            for view in (*VIEWS[1:], VIEWS[0]):
                other.press("ArrowRight")
                self.assertEqual(focused(), f"tab-{view}")
                self.assertTrue(page.locator(f"#panel-{view}").is_visible())
                self.assertEqual(page.locator('[role="tab"][aria-selected="true"]').count(), 1)
            other.press("End")
            self.assertEqual(focused(), "tab-scale")
            other.press("ArrowLeft", "ArrowLeft")
            self.reach(page, "tensors-scale", focused)
            other.press("ArrowRight", "ArrowRight", "ArrowRight")
            self.assertEqual(other.read()["tensors-scale-text"]["text"], "2^3")
            for _ in range(60):
                if focused() == "tab-tensors":
                    break
                page.keyboard.press("Shift+Tab")
            other.press("Home")
            self.reach(page, "value", focused)
            other.press("Control+a", *"0.75")
            self.assertEqual(other.read()["code-fp16"]["text"], "0x3A00")
            self.reach(page, "bit-15", focused)
            other.press("Space")
            self.assertEqual(other.read()["code-fp16"]["text"], "0xBA00")
            self.assertEqual(other.complaints, [])
        finally:
            other.close()

    def reach(self, page, test, focused):
        for _ in range(80):
            page.keyboard.press("Tab")
            if focused() == test:
                return
        self.fail(f"Tab does not reach {test}")

    def test_every_control_has_a_name_in_every_view(self):
        for view in VIEWS:
            self.tab.open("#" + view)
            nameless = self.tab.page.evaluate(
                """() => [...document.querySelectorAll("button, input, select, a, [role=slider], svg[role=img]")].filter((n) => n.getClientRects().length
                     && !(n.getAttribute("aria-label") || n.textContent.trim() || (n.labels && n.labels.length))).map((n) => n.outerHTML.slice(0, 120))""")  # fmt: skip
            self.assertEqual(nameless, [], view)

    def test_nothing_sticks_out_at_three_widths_in_both_themes(self):
        other = Tab(size=(360, 800))
        try:
            for width, theme in ((360, "light"), (800, "dark"), (1400, "auto"), (360, "light")):
                other.page.set_viewport_size({"width": width, "height": 800})
                other.page.locator("#theme").click()
                self.assertEqual(other.page.locator("#theme").text_content(), f"Theme: {theme}")
                for view in VIEWS:
                    other.open("#" + view)
                    too_wide = other.page.evaluate("document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth")
                    self.assertLessEqual(too_wide, 0, f"{view} at {width}")
            self.assertEqual(other.complaints, [])
        finally:
            other.close()

    def test_links_of_all_views_restore_their_state(self):
        links = {"number": "v=-3.5&b=bf16&f=e5m2&axis=all", "designer": "e=4&m=2&specials=inf&beside=fp16&axis=own", "tensors": "scale=9&formats=e4m3,bf16&show=sqnr",
                 "core": "a=1,2&b=3,4&c=5&m1=volta.mma.f32.f16.f16.k4&m2=none", "scale": "steps=300&at=7,9-12&init=4096"}  # fmt: skip
        for view, query in links.items():
            self.tab.open(f"#{view}?{query}")
            first = self.tab.read()
            self.tab.open(f"#{view}")
            self.tab.open(f"#{view}?{query}")
            fresh = Tab(f"#{view}?{query}")
            try:
                for shown in (self.tab.read(), fresh.read()):
                    for key in set(first) - {"tensors-status", "tensors-drop"}:  # they tell how long it took
                        if first[key]["shown"] or shown[key]["shown"]:
                            self.assertEqual(shown[key]["text"], first[key]["text"], f"{view}, {key}")
                kept = dict(part.split("=", 1) for part in fresh.hash().partition("?")[2].split("&"))
                for part in query.split("&"):
                    key, _, value = part.partition("=")
                    self.assertEqual(kept.get(key), value, view)
            finally:
                fresh.close()


class HostileInput(Case):
    link = "#tensors"
    evil = ('<img src=x onerror="self.reached=1">', "</script><script>self.reached=1</script>", "<svg/onload=self.reached=1>", '"><b id=planted>', "javascript:self.reached=1",
            "${self.reached=1}", "\u202egnp.exe", "__proto__", "constructor")  # fmt: skip

    def assert_harmless(self, where):
        self.assertIsNone(self.tab.page.evaluate("self.reached ?? null"), where)
        self.assertEqual(self.tab.page.locator("main img, main script, main iframe, #planted, main b, [onerror], [onload]").count(), 0, where)

    def refused(self, name, data):
        """The page's sentence for these bytes, and the program's."""
        (WORK / name).write_bytes(data)
        self.tab.drop({name: data})
        shown = self.tab.page.locator('[data-test="tensors-errors"] li').all_text_contents()
        done = native("histogram", name, "--json", folder=WORK)
        return shown, [line.removeprefix("narrow: ") for line in done.stderr.strip().split("\n") if line], done

    def test_bad_files_get_the_sentence_of_the_program(self):
        files = tensor_files()
        bad = {"empty.npy": b"", "empty.safetensors": b"", "empty.npz": b"", "text.npy": b"just some words\n", "text.safetensors": b"step,loss\n1,2\n",
               "notes.txt": b"hello", "pickle.npy": pickle.dumps({"a": [1, 2]}), "model.pt": pickle.dumps([1]), "zeros.npy": bytes(64), "zeros.safetensors": bytes(64),
               "objects.npy": npy(pickle.dumps([1]), "|O", (1,)), "huge.safetensors": struct.pack("<Q", 2**62) + b"{}", "huge.npy": npy(b"", "<f4", (2**40,)),
               "negative.npy": npy(b"1234", "<f4", (-1,)), "overlap.safetensors": safetensors([("a", "F32", [2], b"12345678")]).replace(b"[0, 8]", b"[4, 8]"),
               "json.safetensors": struct.pack("<Q", 8) + b'{"a": [}' + b"1234"}  # fmt: skip
        for name in ("mixed.safetensors", "plain.npy", "deflated.npz", "stored.npz"):
            size = len(files[name])
            for cut in (1, 5, 9, 40, size // 3, size - 100, size - 1):
                bad[f"cut{cut}-{name}"] = files[name][:cut]
        for name, data in bad.items():
            shown, expected, done = self.refused(name, data)
            if done.returncode == 0:
                continue
            self.equal("bad file", "\n".join(shown), "\n".join(expected), name)
            self.assertEqual(self.tab.complaints, [], name)
        # and the page goes on
        self.tab.drop({"plain.npy": files["plain.npy"]})
        self.assertIn("1 tensor", self.tab.read()["tensors-status"]["text"])

    def test_changed_bytes_never_stop_the_page(self):
        dice, files = random.Random(SEED + 8), tensor_files()
        for turn in range(30):
            name = dice.choice(sorted(files))
            data = bytearray(files[name])
            for _ in range(dice.choice((1, 3, 20))):
                data[dice.randrange(min(len(data), dice.choice((16, 128, 1024, len(data)))))] = dice.randrange(256)
            shown, expected, done = self.refused(f"changed-{turn}-{name}", bytes(data))
            if done.returncode and "has no tensor of floating numbers" in expected[-1]:  # the page says why: inspect does
                reasons = native_json_of_any("inspect", f"changed-{turn}-{name}", "--json", folder=WORK)["unreadable"]
                self.assertEqual(len(shown), len(reasons), shown)
                for line, row in zip(shown, reasons):
                    self.assertTrue(line.endswith(row["reason"]), f"{line} {row}")
            elif done.returncode:
                self.equal("bad file", "\n".join(shown), "\n".join(expected), name)
            else:
                self.assertIn("tensor", self.tab.read()["tensors-status"]["text"], name)

    def test_a_good_file_beside_a_bad_one_is_shown(self):
        files = tensor_files()
        self.tab.drop({"bad.npy": b"words", "plain.npy": files["plain.npy"]})
        self.assertIn("5\u202f000 values", self.tab.read()["tensors-status"]["text"])
        self.assertEqual(self.tab.page.locator('[data-test="tensors-errors"] li').all_text_contents(), ["'bad.npy': text, not a tensor file: it begins with 'words'"])

    def test_names_with_markup_are_only_text(self):
        value = struct.pack("<f", 0.5)
        data = safetensors([(name, "F32", [1], value) for name in self.evil if not name.startswith("__")], {"<b>": "</b><script>"})
        (WORK / "evil.safetensors").write_bytes(data)
        self.tab.drop({"evil.safetensors": data})
        shown = self.tab.page.eval_on_selector_all('[data-test^="tensors-row-"]', "(all) => all.map((n) => [n.dataset.place, n.textContent])")
        rows = native_json("stats", "evil.safetensors", "--formats", "fp16", "--json", folder=WORK)
        expected = {row["tensor"].replace("\u202e", "\\u202E") for row in rows}  # what turns the text around is written out
        self.assertEqual({text for place, text in shown if place != "-1"}, expected)
        for place, name in shown:
            self.tab.at(f"tensors-row-{place}").click()
            self.tab.settle()
            self.assert_harmless(name)
            if place != "-1":
                self.assertEqual(self.tab.read()["tensors-chosen"]["text"], name)
                self.tab.at("tensors-exact").click()
                self.tab.settle()
                self.assert_harmless(name)
        picture = self.tab.save("save-tensors-histogram-svg").decode()
        self.assertNotIn("<script", picture)
        xml.etree.ElementTree.fromstring(picture)

    def test_file_names_with_markup_are_only_text(self):
        good = npy(struct.pack("<f", 1.5), "<f4", (1,))
        for name in self.evil:
            for data in (good, b"words"):
                self.tab.drop({name + ".npy": data})
                self.assert_harmless(name)
        self.tab.drop({name + ".npy": good for name in self.evil})
        self.assert_harmless("all")
        self.assertIn(f"{len(self.evil)} tensors", self.tab.read()["tensors-status"]["text"])
        archive = npz([(name.replace("/", "|") + ".npy", good) for name in self.evil], zipfile.ZIP_DEFLATED)
        self.tab.drop({"evil.npz": archive})
        self.assert_harmless("npz")

    def test_links_with_markup_are_only_text(self):
        for name in self.evil[:3]:
            text = name.replace("%", "%25").replace("&", "%26").replace("+", "%2B").replace("#", "%23")
            for link in (f"number?v={text}", f"number?b={text}&f={text}", f"number?rule={text}&random={text}&axis={text}", f"designer?beside={text}&e={text}",
                         f"designer?specials={text}&bias={text}", f"tensors?file={text}&tensor={text}", f"tensors?formats={text}&scale={text}&blocks={text}",
                         f"tensors?sort={text}&show={text}&filter={text}", f"core?a={text}&m1={text}&m2={text}", f"core?phase={text}&stage={text}&c={text}&sa={text}",
                         f"scale?at={text}&steps={text}", f"scale?init={text}&interval={text}&from={text}", text):  # fmt: skip
                self.tab.open("#" + link)
                self.assert_harmless(link)
        self.bad_links = [text for text in self.tab.complaints]
        self.tab.complaints[:] = []
        self.tab.open("#tensors")
        self.tab.page.evaluate("() => { document.getElementById('error').hidden = true; }")
        self.assertEqual([text for text in self.bad_links if not text.startswith("Error: narrow: ")], [])


class FromTheProgram(Case):
    """narrow explore: the same page from 127.0.0.1, its files from the program."""

    @classmethod
    def setUpClass(cls):
        if native("explore", "--help").returncode:
            raise unittest.SkipTest("this program has no command explore")
        for name, data in tensor_files().items():
            (WORK / name).write_bytes(data)
        cls.server = subprocess.Popen([NARROW, "explore", "--no-open", "mixed.safetensors", "plain.npy"], cwd=WORK, stdout=subprocess.PIPE, text=True,
                                      env={**os.environ, "NARROW_EXPLORER": str(INDEX.parent)})  # fmt: skip
        cls.base = cls.server.stdout.readline().strip()
        cls.tab = Tab("#tensors", address=cls.base)

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.server.send_signal(signal.SIGINT)
        cls.server.wait(10)

    def setUp(self):
        own = self.base + "files/"
        self.tab.strangers = lambda: [url for url in Tab.strangers(self.tab) if not url.startswith(own)]

    def test_its_files_are_open_and_counted(self):
        self.tab.open("#tensors")
        self.assertRegex(self.base, r"^http://127\.0\.0\.1:\d+/[0-9a-f]{32}/$")
        self.assertTrue(any(url.startswith(self.base + "files/") for url in self.tab.requests))
        counts = native_json("histogram", "mixed.safetensors", "plain.npy", "--json", folder=WORK)
        rows = self.tab.page.eval_on_selector_all('[data-test^="tensors-row-"]', "(all) => all.map((n) => [n.dataset.place, n.textContent])")
        self.assertEqual(len(rows), 8)
        for place, title in rows[1:]:
            self.tab.at(f"tensors-row-{place}").click()
            self.tab.settle()
            file, _, name = title.partition(":")
            wanted = {}
            for row in counts:
                if row["file"] == file and row["tensor"] == name and isinstance(row["exponent"], int):
                    wanted[row["exponent"]] = wanted.get(row["exponent"], 0) + row["negative"] + row["positive"]
            bars = self.tab.bars()
            for exponent in sorted({*wanted, *bars}):
                self.equal("binade", str(bars.get(exponent, 0)), wanted.get(exponent, 0), f"{title}, 2^{exponent}")

    def test_every_view_works(self):
        for view in VIEWS:
            self.tab.open("#" + view)
        self.tab.open("#number?v=0.3")
        shown = self.tab.read()
        for row in native_json("show", "0.3", "--json"):
            self.equal("number x format", shown[f"code-{row['format']}"]["text"], row["code"], "0.3")


# ---- times, where they are asked for ----
def big_file(path, megabytes):
    """Normal values of the width of gradients; one block of 4 MiB over and over."""
    dice = random.Random(SEED)
    block = array.array("f", [dice.gauss(0, 1) * 2.0**-19 for _ in range(1 << 20)]).tobytes()
    with open(path, "wb") as out:
        out.write(npy(b"", "<f4", (megabytes * 10**6 // 4,)))
        left = megabytes * 10**6
        while left > 0:
            left -= out.write(block[:left])


# What the browser gives out of a file in pieces of 4 MiB, as the page asks for them, when nothing is done with it.
READ_ALONE = """(text) => new Promise((done) => {
  const worker = new Worker(URL.createObjectURL(new Blob([text])));
  worker.onmessage = ({data}) => done(data);
  worker.postMessage(document.getElementById("probe").files[0]);
})"""
READER = """onmessage = ({data}) => {
  const reader = new FileReaderSync(), begun = performance.now();
  for (let at = 0; at < data.size; at += 1 << 22) reader.readAsArrayBuffer(data.slice(at, at + (1 << 22)));
  postMessage(data.size / 1e3 / (performance.now() - begun));
}"""


def measure():
    times = []
    for _ in range(6):  # the first one is the cold one
        tab = Tab("#number")
        begun = time.perf_counter()
        tab.page.reload(wait_until="commit")
        tab.at("code-fp16").wait_for()
        times.append(time.perf_counter() - begun)
        tab.close()
    print(f"first view usable after a warm load: best of 5 {min(times[1:]):.2f} s ({', '.join(f'{t:.2f}' for t in times[1:])})", flush=True)
    tab = Tab("#tensors")
    big_file(WORK / "drag.npy", 400)
    tab.page.set_default_timeout(0)
    begun = time.perf_counter()
    tab.give("tensors-files", WORK / "drag.npy")
    print(f"10^8 values counted in {time.perf_counter() - begun:.1f} s ({tab.at('tensors-status').text_content()})", flush=True)
    formats = ["fp16", "bf16", "e4m3", "e5m2"]
    took = tab.page.evaluate("""async (formats) => { const times = [];
      for (let i = 0; i < 50; ++i) { const begun = performance.now(); await engine.at(i - 20, formats); times.push(performance.now() - begun); }
      return times; }""", formats)  # fmt: skip
    took.sort()
    print(f"engine.at over 10^8 counted values, {len(formats)} formats, 50 scales: median {statistics.median(took):.2f} ms, 95th percentile {took[47]:.2f} ms", flush=True)
    shown = tab.page.evaluate("""async () => { const slider = document.querySelector('[data-test="tensors-scale"]'), times = [];
      const cell = () => document.querySelector('[data-test="tensors-kind"]').textContent;
      for (let i = 0; i < 50; ++i) { const begun = performance.now(); slider.value = i - 20; slider.dispatchEvent(new Event("input"));
        while (!cell().includes(`At 2^${i - 20},`)) await new Promise((done) => setTimeout(done, 0));
        times.push(performance.now() - begun); }
      return times; }""")
    shown.sort()
    print(f"from a moved slider to the numbers on the page: median {statistics.median(shown):.1f} ms, 95th percentile {shown[47]:.1f} ms", flush=True)
    (WORK / "drag.npy").unlink()
    big_file(WORK / "big.npy", 1000)
    rates = {"page": [], "program": []}
    for _ in range(7):
        tab.at("tensors-files").set_input_files(WORK / "big.npy")
        time.sleep(4)  # who asks whether it is done takes a part of a core
        tab.settle()
        told = tab.at("tensors-status").text_content()
        rates["page"].append(1000 / float(re.search(r"counted in ([\d.]+) s", told)[1]))
        begun = time.perf_counter()
        subprocess.run([NARROW, "histogram", WORK / "big.npy", "--json"], env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.DEVNULL, check=True)
        rates["program"].append(1000 / (time.perf_counter() - begun))
    tab.page.evaluate("() => document.body.append(Object.assign(document.createElement('input'), {type: 'file', id: 'probe'}))")
    tab.page.set_input_files("#probe", WORK / "big.npy")
    print(f"reading alone, without counting: {max(tab.page.evaluate(READ_ALONE, READER) for _ in range(3)):.0f} MB/s", flush=True)
    (WORK / "big.npy").unlink()
    page, program = max(rates["page"]), max(rates["program"])
    text = {name: ", ".join(f"{rate:.0f}" for rate in list_) for name, list_ in rates.items()}
    print(f"1 GB .npy counted: page {page:.0f} MB/s ({text['page']}), program, one thread {program:.0f} MB/s ({text['program']}): ratio {page / program:.2f}")
    tab.close()
    return True


def run_cases():
    global QUIET_MS
    result = unittest.main(argv=[sys.argv[0], *CHOSEN], exit=False, verbosity=2).result
    failed = [case.id().removeprefix("__main__.") for case, _ in result.failures + result.errors]
    if failed and len(failed) <= MOST_AGAIN:  # on a busy machine an answer may come after the quiet; a wrong one comes again
        QUIET_MS = 400
        print("again, with longer waits: " + " ".join(failed), flush=True)
        result = unittest.main(argv=[sys.argv[0], *failed], exit=False, verbosity=2).result
    print("compared: " + json.dumps(COMPARED))
    return result.wasSuccessful()


def run_halves():
    """Two browsers at a time: each waits for frames most of the time."""
    begun, good, compared = time.time(), True, {}
    halves = [["TheNumberView", "TheShell", "TheFormatDesigner", "TheLossScaleView", "FromTheProgram"], ["TheTensorsView", "TheTensorCoreView", "HostileInput"]]
    options = ["--all"] if ALL else []
    runs = [subprocess.Popen([sys.executable, "-B", __file__, NARROW, INDEX, WORK / str(place), *options, *half], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True) for place, half in enumerate(halves)]  # fmt: skip
    said = [""] * len(runs)
    readers = [threading.Thread(target=lambda place=place: said.__setitem__(place, runs[place].communicate()[0])) for place in range(len(runs))]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    for run, text in zip(runs, said):
        text, _, counts = text.rpartition("compared: ")
        print(text if counts else said[runs.index(run)], end="")
        good = good and run.returncode == 0
        for kind, count in json.loads(counts or "{}").items() if run.returncode in (0, 1) and text else ():
            compared[kind] = compared.get(kind, 0) + count
    print(f"{sum(compared.values())} numbers compared with the program in {time.time() - begun:.0f} s: " + ", ".join(f"{n} {kind}" for kind, n in compared.items()))
    return good


def with_browser(work):
    global FORMATS, MODELS, BY_NAME, ROUNDINGS, CASTS, SCALERS, BROWSER
    FORMATS, MODELS = native_json("formats", "--json"), native_json("models", "--json")
    BY_NAME = {row["name"]: row for row in FORMATS}
    ROUNDINGS, CASTS = accepted("--rounding"), accepted("--cast")
    SCALERS = [row["name"] for row in native_json("list-scaling", "--json") if row["kind"] == "loss scaler" and any(p["name"] == "growth" for p in row["parameters"])]
    playwright, BROWSER = start_browser()
    try:
        return work()
    finally:
        BROWSER.close()
        playwright.stop()


if __name__ == "__main__":
    NARROW, INDEX, WORK, *rest = sys.argv[1:]
    NARROW, INDEX, WORK = str(pathlib.Path(NARROW).resolve()), pathlib.Path(INDEX).resolve(), pathlib.Path(WORK).resolve()
    MEASURE, ALL, CHOSEN = "--measure" in rest, "--all" in rest, [word for word in rest if not word.startswith("--")]
    if not INDEX.is_file():
        print(f"skipped: there is no page {INDEX}; build the target explorer first")
        sys.exit(77)
    WORK.mkdir(parents=True, exist_ok=True)
    sys.exit(0 if (with_browser(measure) if MEASURE else with_browser(run_cases) if CHOSEN else run_halves()) else 1)

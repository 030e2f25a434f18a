"""Text from Debian's packages, and tokens of it: python3 corpus.py FOLDER [--debs FOLDER] [--megabytes 80]

Downloads the packages below (apt-get; or takes the .deb files that lie in --debs), keeps their English text, and writes
FOLDER/text.txt, FOLDER/tokenizer.json (byte-level BPE, learned from that text) and FOLDER/tokens.npy (16 bits each, documents in
the order of the hashes of their text, each ended by token 0). Needs the packages tokenizers and numpy. The same packages give the
same tokens; the text is not part of this repository.
"""

import argparse
import gzip
import hashlib
import html.parser
import pathlib
import re
import subprocess
import tempfile

import numpy as np

PACKAGES = ["linux-doc-6.1", "manpages", "manpages-dev", "perl-doc", "python3.11-doc", "postgresql-doc-15", "dict-gcide", "dict-wn",
            "dict-foldoc", "dict-jargon", "git-doc", "debian-policy", "bash-doc", "sqlite3-doc"]  # fmt: skip
SHORTEST, LONGEST = 400, 200_000  # characters of a document; longer ones are cut into several


class Page(html.parser.HTMLParser):
    """The words of a page, without scripts and navigation."""

    def __init__(self):
        super().__init__()
        self.words, self.hidden = [], 0

    def handle_starttag(self, tag, attrs):
        self.hidden += tag in ("script", "style", "nav", "head", "footer")
        if tag in ("p", "br", "li", "pre", "div", "tr", "dt", "dd", "h1", "h2", "h3", "h4", "h5"):
            self.words.append("\n")

    def handle_endtag(self, tag):
        self.hidden -= tag in ("script", "style", "nav", "head", "footer") and self.hidden > 0

    def handle_data(self, data):
        if not self.hidden:
            self.words.append(data)


def of_html(text):
    page = Page()
    page.feed(text)
    return "".join(page.words)


def of_manual(text):
    """Lines of a manual page without requests; fonts and escapes go."""
    kept = []
    for line in text.splitlines():
        if line.startswith((".\\\"", "'\\\"")):
            continue
        if line.startswith((".", "'")):
            word, _, line = line[1:].partition(" ")
            if word not in ("B", "I", "BR", "IR", "RB", "RI", "BI", "IB", "SH", "SS", "TH", "TP", "IP", "PP", "Nm", "Nd", "Fl", "Ar"):
                continue
        kept.append(re.sub(r"\\f[BIRP]|\\&|\\\||\\c", "", line).replace("\\-", "-").replace("\\(aq", "'").replace("\\e", "\\"))
    return "\n".join(kept)


def text_of(path):
    """What a person would read in a file; nothing where it is no text."""
    name = path.name.removesuffix(".gz").removesuffix(".dz")
    kinds = {".html": of_html, ".htm": of_html, ".rst": str, ".txt": str, ".pod": str, ".dict": str}
    is_manual = "/man/man" in str(path) and re.search(r"\.[1-8]", name)
    if not (is_manual or pathlib.Path(name).suffix in kinds):
        return ""
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    if b"\0" in data[:4096]:
        return ""
    text = data.decode("utf-8", "replace")
    text = of_manual(text) if is_manual else kinds[pathlib.Path(name).suffix](text)
    text = re.sub(r"[ \t]+\n", "\n", text)
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def documents(debs):
    found = {}
    for deb in sorted(debs.glob("*.deb")):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["dpkg-deb", "-x", deb, folder], check=True)
            before = sum(map(len, found.values()))
            for path in sorted(pathlib.Path(folder).rglob("*")):
                if path.is_symlink() or not path.is_file() or "translations" in str(path):
                    continue
                text = text_of(path)
                for start in range(0, len(text), LONGEST):
                    part = text[start : start + LONGEST]
                    if len(part) >= SHORTEST:
                        found.setdefault(hashlib.sha256(part.encode()).digest(), part)
            print(f"{deb.name}: {(sum(map(len, found.values())) - before) / 1e6:.1f} M characters", flush=True)
    return [found[key] for key in sorted(found)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--debs", type=pathlib.Path)
    parser.add_argument("--vocabulary", type=int, default=23_000)
    parser.add_argument("--megabytes", type=float, default=80, help="of text; the rest is left")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    debs = options.debs or options.folder / "debs"
    if options.debs is None:
        debs.mkdir(exist_ok=True)
        subprocess.run(["apt-get", "download", *PACKAGES], cwd=debs, check=True)
    texts, size = [], 0
    for text in documents(debs):  # in the order of hashes: any part is a fair one
        if (size := size + len(text.encode())) > options.megabytes * 1e6:
            break
        texts.append(text)
    print(f"{len(texts)} documents, {sum(len(t.encode()) for t in texts) / 1e6:.1f} MB", flush=True)
    (options.folder / "text.txt").write_text("\n\f\n".join(texts))

    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=options.vocabulary, special_tokens=["<end>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())  # fmt: skip
    tokenizer.train_from_iterator(texts[::4], trainer)  # a quarter of them is enough to learn words from
    tokenizer.save(str(options.folder / "tokenizer.json"))
    ids = [np.array([*e.ids, 0], np.uint16) for batch in range(0, len(texts), 256) for e in tokenizer.encode_batch(texts[batch : batch + 256])]
    tokens = np.concatenate(ids)
    np.save(options.folder / "tokens.npy", tokens)
    print(f"{len(tokens) / 1e6:.1f} M tokens of {tokenizer.get_vocab_size()}, {hashlib.sha256(tokens.tobytes()).hexdigest()[:16]}")


if __name__ == "__main__":
    main()

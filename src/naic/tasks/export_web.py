"""`naic export --web`: a page that captions photos in the visitor's browser, from any web server.

What the page is written in lies in the folder `web` beside this file. Here is what depends on the
model: which graph, which words, and how they are written.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from naic.errors import ConfigError
from naic.files import sync_folder
from naic.text.neutral import AN
from naic.text.style import SMALL, Style, joined
from naic.text.tokeniser import SPLITS, tokenise
from naic.text.vocabulary import BAD_ENDINGS, SPECIAL, Vocabulary

PAGE, FACTS, LICENCES = "index.html", "page.json", "LICENSES.txt"
PARTS = Path(__file__).with_name("web")
RUNTIME = "runtime"  # the folder for onnxruntime-web's files
PACKAGE = "onnxruntime-web@1.30.0"  # the version that was tried
# The program that the page imports comes first.
RUNTIME_FILES = ("ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm")
HINT = (
    f"Run: npm pack {PACKAGE} && tar xzf {PACKAGE.replace('@', '-')}.tgz; its files "
    f"{' and '.join(RUNTIME_FILES)} are in package/dist"
)
_LICENCES = """\
The page and its scripts: naic, Apache License 2.0. https://www.apache.org/licenses/LICENSE-2.0

The model: README.md has its data and terms. Where it is the one that comes with naic, it carries
weights of CLIP (Copyright (c) 2021 OpenAI, MIT License, below) and of DINOv2 (Copyright (c) Meta
Platforms, Inc. and affiliates, Apache License 2.0), trained on and rounded.

The files in runtime: ONNX Runtime (Copyright (c) Microsoft Corporation, MIT License, below).

MIT License

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and
associated documentation files (the "Software"), to deal in the Software without restriction,
including without limitation the rights to use, copy, modify, merge, publish, distribute,
sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or
substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT
NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND
NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM,
DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT
OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
"""


def find_runtime(folder: Path) -> Path:
    """Where in the unpacked package, or its `dist`, onnxruntime-web's files are.

    Raises:
        ConfigError: they are not all there.
    """
    for place in (folder, folder / "dist"):
        if all((place / name).is_file() for name in RUNTIME_FILES):
            return place
    missing = [name for name in RUNTIME_FILES if not (folder / name).is_file()]
    why = f"{folder} has no {' and no '.join(missing)}, and no dist with all that it takes"
    raise ConfigError("--runtime-files", why, f"{HINT}.")


def write_page(
    folder: Path,
    graph: bytes,
    vocabulary: Vocabulary,
    pixels: int,
    runtime: Path | None,
    style: Style | None = None,
) -> None:
    """Fill a folder with all that the page takes; without `runtime` it says what is missing."""
    from naic.models.folder import write_synced  # with it comes torch

    for part in sorted(PARTS.iterdir()):
        write_synced(folder / part.name, [part.read_bytes()])
    # By its name a browser knows that it has the graph already, and a cache in between, too.
    name = f"model-{hashlib.sha256(graph).hexdigest()[:16]}.onnx"
    write_synced(folder / name, [graph])
    facts = {
        "graph": name,
        "bytes": len(graph),
        "pixels": pixels,
        **language(vocabulary, style),
        "runtime": {
            "files": [f"{RUNTIME}/{file}" for file in RUNTIME_FILES],
            "hint": f"the files of ONNX Runtime are missing. {HINT}; they belong into {RUNTIME}",
        },
    }
    write_synced(folder / FACTS, [(json.dumps(facts) + "\n").encode()])
    write_synced(folder / LICENCES, [_LICENCES.encode()])
    (folder / RUNTIME).mkdir()
    if runtime is not None:
        for file in RUNTIME_FILES:
            write_synced(folder / RUNTIME / file, [(runtime / file).read_bytes()])
    sync_folder(folder / RUNTIME)


def language(vocabulary: Vocabulary, style: Style | None = None) -> dict[str, object]:
    """What the page has to know of the words, so that it needs no tokeniser.

    Words that only the style says come after those of the vocabulary.

    Returns:
        spelled: each word as it is written, by its id.
        endings: the ids of words that end no sentence.
        clitics: the ids of words that join the one before them, such as "'s", each with the ids of
            those that they do not join.
        compounds: other pairs of words that are written as one, such as "cannot".
        style: how a sentence is written then; None: as it is said.
    """
    if style is not None:
        said = (word for _, words in style.instead for word in words)
        more = dict.fromkeys((*said, "a", "an"))
        vocabulary = Vocabulary((*vocabulary.words, *(w for w in more if w not in vocabulary)))
    ids = range(len(SPECIAL), len(vocabulary))
    spelled = [""] * len(SPECIAL) + [vocabulary.decode([id_]) for id_ in ids]

    def are_joined(one: int, other: int) -> bool:
        return vocabulary.decode([one, other]) == spelled[one] + spelled[other]

    compounds = [
        (vocabulary.id(one), vocabulary.id(other))
        for one, other in SPLITS.items()
        if one in vocabulary and other in vocabulary
    ]
    return {
        "spelled": spelled,
        "endings": [vocabulary.id(word) for word in BAD_ENDINGS if word in vocabulary],
        "clitics": {
            other: [one for one in ids if not are_joined(one, other)]
            for other in ids
            if spelled[other].startswith(("'", "n't"))
        },
        "compounds": [pair for pair in compounds if are_joined(*pair)],
        "style": None if style is None else _style(style, vocabulary),
    }


def _style(style: Style, vocabulary: Vocabulary) -> dict[str, object]:
    """A style by the ids of words.

    Returns:
        around: the text before a sentence, and the one after it.
        begin, close: the same as ids, for a sentence that says it by itself; empty if none can.
        table: ids, each with those that are said in its place.
        articles: the ids of "a" and "an".
        vowel: a regular expression of words that take "an".
        small: words that stay small in a title.
        case, end: as the style has them.
    """
    table = dict.fromkeys(style.without, ()) | dict(style.instead)

    def ids(words: Sequence[str]) -> list[int]:
        return [*map(vocabulary.id, words)]

    parts = [tokenise(joined(part)) for part in (style.before, style.after)]
    begin, close = (ids(part) if all(map(vocabulary.__contains__, part)) else [] for part in parts)
    return {
        "around": joined((*style.before, "\0", *style.after)).split("\0"),
        "begin": begin,
        "close": close,
        "table": {vocabulary.id(w): ids(said) for w, said in table.items() if w in vocabulary},
        "articles": ids(("a", "an")),
        "vowel": AN.pattern,
        "small": sorted(SMALL),
        "case": style.case,
        "end": style.end,
    }

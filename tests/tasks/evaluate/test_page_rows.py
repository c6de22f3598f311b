"""Which rows the page of captions shows, and in what order."""

from pathlib import Path
from typing import Any

from naic.tasks.evaluate.page import PARTS
from tests.tasks.javascript import needs_node, node

DATA: dict[str, Any] = {
    "ids": ["10", "20", "30", "Dog"],
    "references": [["A red Dog"], ["a cat", "two dogs"], ["a tree\u72ac and (B)"], ["x"]],
    "systems": [
        {
            "captions": ["a dog", "a cat cat", "", "red"],
            "scores": {"CIDEr": [50, 10, 0, None]},
            "marks": {"1": ["repeat"], "2": ["empty"]},
        },
        {
            "captions": ["a dog", "a cat", "on a", "red"],
            "scores": {"CIDEr": [20, 90, 0, 5]},
            "marks": {"2": ["ending"]},
        },
    ],
}
WISH: dict[str, Any] = {
    "text": "",
    "where": "",
    "by": "CIDEr",
    "of": [0],
    "order": "worst",
    "marks": [],
    "who": None,
}


@needs_node
def test_filter_and_order(tmp_path: Path) -> None:
    asked: list[tuple[dict[str, Any], list[int]]] = [
        ({}, [2, 1, 0, 3]),  # what has no score comes last
        ({"order": "best"}, [0, 1, 2, 3]),
        ({"of": [1]}, [2, 3, 0, 1]),
        ({"of": [0, 1]}, [1, 2, 0, 3]),
        ({"of": [0, 1], "order": "best"}, [0, 2, 1, 3]),
        ({"by": ""}, [0, 1, 2, 3]),
        ({"by": "METEOR"}, [0, 1, 2, 3]),
        ({"by": "", "text": "DOG"}, [0, 1, 3]),
        ({"by": "", "text": "dog red"}, [0, 3]),
        ({"by": "", "text": '"red dog"'}, [0]),
        ({"by": "", "text": '"red dog'}, [0]),
        ({"by": "", "text": ' " '}, [0, 1, 2, 3]),
        ({"by": "", "text": "og"}, [3]),  # ids may be cut anywhere, words at their beginning
        ({"by": "", "text": "og", "where": "captions"}, []),
        ({"by": "", "text": "do"}, [0, 1, 3]),
        ({"by": "", "text": "\u72ac"}, [2]),
        ({"by": "", "text": "(a+)*$ [x] \\d {1}|^/ -"}, []),
        ({"by": "", "text": "(b)"}, [2]),
        ({"by": "", "text": "dog", "where": "captions"}, [0]),
        ({"by": "", "text": "dog", "where": "references"}, [0, 1]),
        ({"by": "", "text": "dog", "where": "ids"}, [3]),
        ({"by": "", "marks": ["repeat"]}, [1]),
        ({"by": "", "marks": ["repeat", "ending"]}, [1, 2]),
        ({"by": "", "marks": ["repeat"], "who": 1}, []),
        ({"by": "", "marks": ["ending"], "who": 1, "text": "tree"}, [2]),
    ]
    wishes = [WISH | wish for wish, _ in asked]
    code = """[data.wishes.map((wish) => page.choose(data.page, page.texts(data.page), wish)),
              page.countMarks(data.page, null), page.countMarks(data.page, 1)]"""
    found, *counts = node(tmp_path, "rows.js", code, {"page": DATA, "wishes": wishes}, PARTS)
    assert found == [rows for _, rows in asked]
    assert counts == [
        {"repeat": 1, "ending": 1, "empty": 1},
        {"repeat": 0, "ending": 1, "empty": 0},
    ]

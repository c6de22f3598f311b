"""Text in the cells of a spreadsheet: no formula, and in letters that it shows right."""

import re

# What tells Excel that a CSV file is UTF-8: without it "café" is shown as "cafÃ©".
MARK = "\ufeff"
# What a spreadsheet takes for a formula when a cell begins with it.
_FORMULA = re.compile(r"[=+\-@\t\r]")
# ... or what we would write for one: so `text_of_cell` gives back whatever `text_cell` was given.
_GUARDED = re.compile(r"'*[=+\-@\t\r]")


def is_formula(text: str) -> bool:
    """Whether a spreadsheet would take a cell with this text for a formula."""
    return _FORMULA.match(text) is not None


def text_cell(text: str) -> str:
    """Text that a spreadsheet shows as it is; by an apostrophe it knows that it is no formula."""
    return f"'{text}" if _GUARDED.match(text) else text


def text_of_cell(cell: str) -> str:
    """What `text_cell` was given: its apostrophe is not part of the text."""
    return cell[1:] if cell.startswith("'") and _GUARDED.match(cell) else cell

"""What is done on the page of `naic serve` in a browser, step by step."""

from pathlib import Path
from typing import Any

from tests.serve.fake import encoded
from tests.serve.stand_in_page import sentence
from tests.serve.standing import photo

Steps = list[list[Any]]
EVIL = "<script>hacked = 1<∕script><img src=x onerror=hacked=1>.png"
TOKEN = "correct horse"
DONE = "document.querySelector('#photos li') && !document.querySelector('#photos .waiting')"
WIDER = "document.documentElement.scrollWidth - innerWidth"
ACTIVE = "document.activeElement.innerText.replace(/\\s+/g, ' ')"
DROP = f"""(() => {{
  const bytes = Uint8Array.from(atob("{encoded(photo(9))}"), (letter) => letter.charCodeAt(0));
  const data = new DataTransfer();
  data.items.add(new File([bytes], "dropped.png", {{ type: "image/png" }}));
  const cells = new DataTransfer();
  cells.items.add(data.files[0]);
  cells.setData("text/plain", "a cell");
  const count = () => document.querySelectorAll("#photos li").length;
  const paste = (place, clipboardData) => {{
    const before = count();
    place.dispatchEvent(new ClipboardEvent("paste", {{ clipboardData, bubbles: true }}));
    return count() - before;
  }};
  const came = [paste(document.querySelector("[name=find]"), cells), paste(document, data)];
  document.body.dispatchEvent(new DragEvent("drop", {{ dataTransfer: data, bubbles: true }}));
  return came;
}})()"""
BARS = """[...document.querySelectorAll('.lattice > li:not(.silent)')].map((item) => [
  item.querySelector('.value').textContent, item.querySelector('.bar').style.blockSize])"""
VEIL = """(() => {
  const veil = document.querySelector('.frame canvas');
  const { data } = veil.getContext('2d').getImageData(0, 0, veil.width, veil.height);
  return [...data].filter((_, n) => n % 4 === 3);
})()"""


def said_of(path: str) -> str:
    return sentence(Path(path).read_bytes())


def reference_of(path: str) -> str:
    """One in which two of the words are, and one that nobody knows."""
    words = said_of(path).split()
    return f"{words[1]} {words[-1]} zyzzyva"


def captioning(photos: dict[str, str], axe: Steps) -> Steps:
    every = [photos[name] for name in ("cat", "evil", "busy", "text", "large")]
    return [
        *axe,
        ["files", "#choose", every],
        ["until", DONE],
        ["texts", "#photos .caption"],
        ["texts", "#photos .name"],
        ["until", "document.getElementById('said').textContent"],
        ["value", "typeof hacked"],
        ["value", DROP],
        ["until", "document.querySelectorAll('#photos li.done').length === 5"],
        ["texts", "#photos .done .name"],
        ["click", "#photos summary >> nth=0"],
        *axe,
        ["value", WIDER],
    ]


def agents(photos: dict[str, str], axe: Steps) -> Steps:
    return [
        ["files", "#choose", [photos["cat"], photos["evil"]]],
        ["until", DONE],
        ["click", "a[href='#agents/1']"],
        ["until", "document.querySelector('.lattice li')"],
        ["texts", "#agents .lattice [aria-pressed=true] .text"],
        ["texts", "#agents .silent .agent"],
        ["hover", ".lattice li:nth-child(2) .word"],
        ["value", VEIL],
        ["texts", ".told"],
        ["hover", ".cells [data-cell='1']"],
        ["texts", ".marked .agent"],
        ["texts", ".told"],
        ["fill", "#references", reference_of(photos["cat"])],
        ["until", "document.querySelector('.worth:not([hidden])')"],
        ["value", BARS],
        ["texts", ".reward"],
        ["focus", ".lattice li:nth-child(2) .word"],
        ["texts", ".outcomes td, .outcomes th[scope=row]"],
        ["click", ".lattice li:nth-child(2) .word:nth-child(2)"],
        ["until", "document.querySelector('.reward').textContent.includes('a the')"],
        ["value", BARS],
        ["texts", ".spoken .caption"],
        ["click", "text=Back to what they said"],
        ["texts", ".spoken .caption"],
        ["click", "text=Let the teacher write"],
        ["until", "document.querySelector('.lane')"],
        ["value", "document.getAnimations().map((one) => one.finish()).length"],
        ["texts", ".lane .mark"],
        ["texts", ".clock button"],
        *axe,
        ["value", WIDER],
        ["click", "#agents-after"],
        ["until", "document.querySelector('.spoken .caption').textContent != '' && "
         "document.getElementById('agents-photo').textContent.includes('script')"],
        ["value", "typeof hacked"],
    ]  # fmt: skip


def keyboard(photos: dict[str, str]) -> Steps:
    """From the photo on by keys alone."""
    focused = "document.activeElement.getAttribute('href') ?? ''"
    card: Steps = [["focus", "#choose"], ["press", "Tab"]]
    return [
        ["files", "#choose", [photos["cat"]]],
        ["until", DONE],
        *card,
        ["value", ACTIVE],
        *[["press", "Tab"]] * 2,
        ["value", focused],
        ["press", "Enter"],
        ["until", "document.querySelector('.lattice li')"],
        ["focus", "#agents-view [role=gridcell][tabindex='0']"],
        ["press", "ArrowRight"],
        ["value", "document.activeElement.getAttribute('aria-label')"],
        ["press", "End"],
        ["press", "ArrowDown"],
        ["value", "document.activeElement.getAttribute('aria-label')"],
        ["press", "Tab"],
        ["press", "Tab"],
        ["value", ACTIVE],
        ["press", "ArrowRight"],
        ["press", "ArrowDown"],
        ["value", ACTIVE],
        ["texts", ".told"],
        ["press", "Enter"],
        ["value", ACTIVE],
        ["texts", ".told"],
        ["texts", ".spoken .caption"],
        ["press", "Escape"],
        ["texts", ".told"],
        ["press", "End"],
        ["press", "Home"],
        ["value", ACTIVE],
    ]


def asking_for_a_token(photos: dict[str, str]) -> Steps:
    return [
        ["until", "document.getElementById('door').open"],
        ["files", "#choose", [photos["cat"]]],
        ["fill", "#token", "wrong"],
        ["press", "Enter"],
        [
            "until",
            "!document.getElementById('wrong').hidden && document.getElementById('door').open",
        ],
        ["press", "Escape"],
        ["until", "document.querySelector('#photos .failed')"],
        ["texts", "#photos .caption"],
        ["click", "text=Try again"],
        ["until", "document.getElementById('door').open"],
        ["fill", "#token", TOKEN],
        ["press", "Enter"],
        ["until", "document.querySelector('#photos .done')"],
        ["texts", "#photos .caption"],
        ["value", "sessionStorage.getItem('naic-token')"],
    ]


def without_attention(photos: dict[str, str], axe: Steps) -> Steps:
    return [
        ["files", "#choose", [photos["cat"]]],
        ["until", DONE],
        ["click", "nav a[href='#agents']"],
        ["until", "document.querySelector('.lattice li')"],
        ["texts", ".told"],
        ["hover", ".lattice li:nth-child(2) .word"],
        ["texts", ".told"],
        ["texts", ".weights p"],
        ["value", "document.querySelector('.frame').hidden"],
        *axe,
        ["click", "nav a[href='#review']"],
        *axe,
        ["value", WIDER],
    ]

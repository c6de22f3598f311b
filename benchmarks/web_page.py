"""Does the page of `naic export --web` say in Chromium what `naic caption` says?

    naic export --web build/page --runtime-files package
    python -m benchmarks.web_page --page build/page --images val \
        --playwright node_modules/playwright-core --out docs/results/light/web.json

Photos are given to the page as the JPEG files that they are; as PNG files, scaled to 640 x 480 or,
every other one, 480 x 640, so that both sides have equal pixels to scale down; and some as JPEG
files of 12 megapixels made of them, which are shrunk while they are decoded. `naic caption`
runs the model that the page was made of, in float32, on the same files. Seconds are those of
whatever machine it is, with one thread in the browser.
"""

import argparse
import functools
import http.server
import json
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from PIL import Image

from naic.files import write_atomically
from naic.runtime.captioner import Captioner
from naic.tasks.export_web import PACKAGE

DRIVER = Path(__file__).parents[1] / "tests" / "tasks" / "browser.mjs"
MIDDLE, LARGE = (640, 480), (4000, 3000)
FEW = 5  # times fewer large photos
PATIENCE = 3 * 60 * 1000  # milliseconds, for one photo


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing of each file."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The folder's address on a plain web server of this machine."""
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://localhost:{server.server_port}/"
        server.shutdown()


def copies(images: list[Path], folder: Path, kind: str) -> list[Path]:
    """The photos as files of this kind."""
    if kind == "jpeg":
        return images
    made = []
    for number, path in enumerate(images):
        image = Image.open(path).convert("RGB")
        size = MIDDLE if kind == "png" else LARGE
        image = image.resize(size if number % 2 else size[::-1], Image.Resampling.BICUBIC)
        made.append(folder / f"{path.stem}-{kind}.{'png' if kind == 'png' else 'jpg'}")
        image.save(made[-1], quality=90)
    return made


def in_browser(
    url: str, photos: list[Path], playwright: Path, chromium: str, **more: object
) -> dict[str, Any]:
    """What the page said, as tests/tasks/browser.mjs tells it; `more` are other wishes of its."""
    spec = {
        "url": url,
        "photos": [str(path) for path in photos],
        "playwright": str(playwright),
        "chromium": chromium,
        "patience": PATIENCE,
        **more,
    }
    told = subprocess.run(
        ["node", str(DRIVER), json.dumps(spec)], check=True, stdout=subprocess.PIPE
    )
    found: dict[str, Any] = json.loads(told.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--page", type=Path, required=True)
    parser.add_argument("--model", type=Path, help="by default the one inside naic")
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--playwright", type=Path, required=True)
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    images = sorted(given.images.glob("*.jpg"))[: given.count]
    (graph,) = given.page.glob("model-*.onnx")
    captioner = Captioner(given.model, device="cpu", precision="float32")
    version = subprocess.run([given.chromium, "--version"], capture_output=True, check=True)
    result: dict[str, Any] = {
        "command": "python -m benchmarks.web_page",
        "chromium": version.stdout.decode().strip(),
        "runtime": PACKAGE,
        "against": f"naic caption, {captioner.engine.runtime}, {captioner.engine.precision}",
        "graph_bytes": graph.stat().st_size,
    }
    with tempfile.TemporaryDirectory() as folder, served(given.page) as url:
        for kind in ("jpeg", "png", "large"):
            some = images[::FEW] if kind == "large" else images
            photos = copies(some, Path(folder), kind)
            own = [caption.text for caption in captioner.caption(photos)]
            told = in_browser(url, photos, given.playwright, given.chromium)
            pairs = list(zip(own, (text for text, _ in told["captions"]), strict=True))
            result[kind] = {
                "photos": len(pairs),
                "equal": sum(one == other for one, other in pairs),
                "differing": [list(pair) for pair in pairs if pair[0] != pair[1]],
                "seconds_each": round(median(told["seconds"]), 2),
                "seconds_to_ready": round(told["started"], 1),
                "outside_requests": sum(
                    not asked.removeprefix("blob:").startswith(url) for asked in told["requests"]
                ),
            }
            print(kind, result[kind], flush=True)
            write_atomically(given.out, (json.dumps(result, indent=2) + "\n").encode())


if __name__ == "__main__":
    main()

"""Running the scripts of the page through node, with JSON on both sides."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from naic.tasks.export_web import PARTS

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(
    NODE is None, reason="node, which runs JavaScript, is not installed"
)


def node(folder: Path, module: str, code: str, data: object, parts: Path = PARTS) -> Any:
    """What an expression over `data` gives, and over all that a module of the page exports.

    Args:
        folder: for the files in between.
        module: such as "resize.js".
        code: an expression of `page`, the module, and `data`.
        data: anything that JSON can hold.
        parts: the page's folder.
    """
    assert NODE is not None
    given, program = folder / "data.json", folder / "program.mjs"
    given.write_text(json.dumps(data))
    shutil.copy(parts / module, folder / module.replace(".js", ".mjs"))
    program.write_text(
        f"""import * as page from "./{module.replace(".js", ".mjs")}";
        import {{ readFileSync }} from "node:fs";
        const data = JSON.parse(readFileSync({json.dumps(str(given))}, "utf8"));
        console.log(JSON.stringify({code}));"""
    )
    done = subprocess.run([NODE, str(program)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)

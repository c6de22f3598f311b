"""A stand-in for the model hub's HTTP API: as much of it as to make, fill and load a model takes.

Written from what the official client asks for. Nothing of a commit is there before all of it is.
"""

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

TOKENS = {"good": "me", "reader": "nobody"}  # and who they belong to
LARGE = (".safetensors", ".onnx")


@dataclass
class Hub:
    """What the hub holds, and what goes wrong there.

    Attributes:
        models: by name, the files of the last commit.
        private: those that nobody else is to see.
        large: files that are no part of a commit yet, by their SHA-256.
        commits: how many there were.
        asked: each request, as METHOD path.
        gone_at: from a request whose path has this on, every connection is cut: `gone`.
        url: where it listens.
    """

    models: dict[str, dict[str, bytes]] = field(default_factory=dict)
    private: set[str] = field(default_factory=set)
    large: dict[str, bytes] = field(default_factory=dict)
    commits: int = 0
    asked: list[str] = field(default_factory=list)
    gone_at: str | None = None
    gone: bool = False
    url: str = ""


@contextmanager
def running() -> Iterator[Hub]:
    """A hub on this machine."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (_Handler,), {"hub": hub}))
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """No lines between those of the tests."""

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "") == "chunked":
            parts = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _answer(self, value: object, status: int = 200, **headers: str) -> None:
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        for name, text in headers.items():
            self.send_header(name.replace("_", "-"), text)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _refuse(self, status: int, why: str) -> None:
        self._answer({"error": why}, status, X_Error_Message=why)

    def _handle(self) -> None:
        path = urlsplit(self.path).path
        self.hub.asked.append(f"{self.command} {path}")
        body = self._body()
        if self.hub.gone_at is not None and self.hub.gone_at in path:
            self.hub.gone = True
        if self.hub.gone:
            self.close_connection = True
            return
        who = TOKENS.get(self.headers.get("Authorization", "").removeprefix("Bearer "))
        if self.command in ("POST", "PUT") and not path.startswith("/large/"):
            if who is None:
                self._refuse(401, "Invalid credentials in Authorization header")
                return
            self._write(path, body, who)
            return
        if path.startswith("/large/"):
            self.hub.large[path.rpartition("/")[2]] = body
            self._answer({})
            return
        self._read(path)

    do_GET = do_HEAD = do_POST = do_PUT = _handle  # noqa: N815

    def _write(self, path: str, body: bytes, who: str) -> None:
        if path == "/api/repos/create":
            self._create(json.loads(body), who)
            return
        if path == "/api/validate-yaml":
            self._answer({"errors": [], "warnings": []})
            return
        if path.endswith("/info/lfs/objects/batch"):
            self._batch(json.loads(body))
            return
        _, _, _, owner, name, verb, *_ = path.split("/")
        if owner != who:
            self._refuse(403, f"Forbidden: you have no rights to {owner}/{name}")
        elif verb == "preupload":
            self._answer({"files": [
                {"path": file["path"], "shouldIgnore": False, "oid": None,
                 "uploadMode": "lfs" if file["path"].endswith(LARGE) else "regular"}
                for file in json.loads(body)["files"]
            ]})  # fmt: skip
        else:
            self._commit(f"{owner}/{name}", body)

    def _create(self, asked: dict[str, Any], who: str) -> None:
        owner, name = asked.get("organization") or who, asked["name"]
        whole = f"{owner}/{name}"
        if owner != who:
            self._refuse(403, f"You don't have the rights to create a model under {owner}")
        elif "bad" in name:
            self._refuse(400, "this name is not allowed")
        elif whole in self.hub.models:
            self._refuse(409, "You already created this model repo")
        else:
            self.hub.models[whole] = {".gitattributes": b"*.safetensors filter=lfs\n"}
            if asked.get("visibility") == "private":
                self.hub.private.add(whole)
            self._answer({"url": f"{self.hub.url}/{whole}", "id": whole, "name": whole})

    def _batch(self, asked: dict[str, Any]) -> None:
        objects = [
            {"oid": own["oid"], "size": own["size"],
             "actions": {"upload": {"href": f"{self.hub.url}/large/{own['oid']}", "header": {}}}}
            for own in asked["objects"]
        ]  # fmt: skip
        self._answer({"transfer": "basic", "objects": objects})

    def _commit(self, name: str, body: bytes) -> None:
        """All files of it, or none."""
        files = dict(self.hub.models[name])
        for line in body.splitlines():
            entry = json.loads(line)
            value = entry["value"]
            if entry["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif entry["key"] == "lfsFile":
                found = self.hub.large.get(value["oid"])
                if found is None or hashlib.sha256(found).hexdigest() != value["oid"]:
                    self._refuse(400, f"{value['path']} was not uploaded")
                    return
                files[value["path"]] = found
        self.hub.models[name] = files
        self.hub.commits += 1
        oid = _sha(files)
        self._answer({"commitUrl": f"{self.hub.url}/{name}/commit/{oid}", "commitOid": oid})

    def _read(self, path: str) -> None:
        parts = path.strip("/").split("/")
        name = "/".join(parts[2:4] if parts[0] == "api" else parts[:2])
        files = self.hub.models.get(name)
        if files is None:
            self._answer({"error": "Repository not found"}, 404, X_Error_Code="RepoNotFound")
            return
        if parts[0] != "api":
            data = files[parts[-1]]
            etag = f'"{hashlib.sha256(data).hexdigest()}"'
            self._answer(data, ETag=etag, X_Repo_Commit=_sha(files))
        elif parts[4:5] == ["tree"]:
            self._answer([_file(path, data) for path, data in files.items()])
        else:
            siblings = [{"rfilename": path} for path in files]
            facts = {"id": name, "modelId": name, "private": name in self.hub.private}
            self._answer({**facts, "sha": _sha(files), "siblings": siblings})


def _sha(files: dict[str, bytes]) -> str:
    state = hashlib.sha1(usedforsecurity=False)
    for path, data in sorted(files.items()):
        state.update(path.encode() + data)
    return state.hexdigest()


def _file(path: str, data: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "file", "path": path, "size": len(data), "oid": "0" * 40}
    if path.endswith(LARGE):
        sha = hashlib.sha256(data).hexdigest()
        found["lfs"] = {"oid": sha, "size": len(data), "pointerSize": 130}
    return found

"""A server that speaks S3, on this machine, started and stopped by a test."""

import contextlib
import logging
import os
import re
import urllib.request
from collections.abc import Iterator, Mapping

import pytest

# What would lead a client elsewhere than to the test's own server.
ELSEWHERE = ("AWS_PROFILE", "AWS_ENDPOINT_URL_S3", "AWS_SESSION_TOKEN", "HTTP_PROXY", "http_proxy")


@contextlib.contextmanager
def serving_s3() -> Iterator[dict[str, str]]:
    """What a client's environment must say to reach the server."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        }
    finally:
        server.stop()


def reach(environment: Mapping[str, str], patch: pytest.MonkeyPatch) -> None:
    """Lead this process to the server, whatever it was led to before."""
    from fsspec import get_filesystem_class

    for name in ELSEWHERE:
        patch.delenv(name, raising=False)
    for name, value in environment.items():
        patch.setenv(name, value)
    get_filesystem_class("s3").clear_instance_cache()


def make_bucket(environment: Mapping[str, str], name: str) -> str:
    """An empty bucket; its URL."""
    _ask(environment, name, "PUT")
    return f"s3://{name}"


def unfinished(environment: Mapping[str, str], bucket: str) -> list[str]:
    """The keys of uploads that were begun, and neither finished nor taken back."""
    return re.findall("<Key>(.*?)</Key>", _ask(environment, f"{bucket}?uploads", "GET"))


def _ask(environment: Mapping[str, str], path: str, method: str) -> str:
    request = urllib.request.Request(f"{environment['AWS_ENDPOINT_URL']}/{path}", method=method)
    with urllib.request.urlopen(request) as answer:
        return str(answer.read(), "utf-8")

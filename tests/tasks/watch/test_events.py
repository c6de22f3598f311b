import contextlib
import os
import queue
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from naic.tasks.watch.events import Bell, events, is_news

SOON = 10.0  # seconds: far more than a test needs


@pytest.mark.parametrize(
    ("kind", "path", "folder", "news"),
    [
        ("created", "p/a.jpg", False, True),
        ("modified", "p/a.JPG", False, True),
        ("closed", "p/a.png", False, True),
        ("moved", "p/a.png", False, True),
        ("attrib", "p/a.png", False, True),
        ("opened", "p/a.jpg", False, False),
        ("closed_no_write", "p/a.jpg", False, False),
        ("deleted", "p/a.jpg", False, False),
        ("created", "p/a.txt", False, False),
        ("created", "p/a.txt.1-2.part", False, False),
        ("created", "p/.a.jpg", False, False),
        ("created", "p/new", True, True),
        ("moved", "p/new", True, True),
        ("modified", "p", True, False),
    ],
)
def test_what_is_news(kind: str, path: str, folder: bool, news: bool) -> None:
    assert is_news(kind, path, folder=folder) is news


def test_a_ring_ends_a_sleep_and_many_are_one() -> None:
    bell = Bell()
    for _ in range(1000):
        bell.ring()
    began = time.monotonic()
    bell.wait(0, SOON)
    bell.wait(0.01, 0.02)
    assert time.monotonic() - began < SOON


def test_a_ring_does_not_end_the_rest() -> None:
    bell = Bell()
    bell.ring()
    began = time.monotonic()
    bell.wait(0.05, SOON)
    assert 0.05 <= time.monotonic() - began < SOON


def test_a_stop_ends_all_sleep() -> None:
    bell = Bell()
    threading.Timer(0.01, bell.stop).start()
    began = time.monotonic()
    bell.wait(SOON, SOON)
    bell.wait(SOON, SOON)
    assert time.monotonic() - began < SOON
    assert bell.stopped


def test_a_signal_ends_a_sleep() -> None:
    bell = Bell()
    before = signal.signal(signal.SIGUSR1, lambda *_: bell.stop())
    try:
        threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        began = time.monotonic()
        bell.wait(SOON, SOON)
        assert time.monotonic() - began < SOON
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_events_of_photos_and_folders(tmp_path: Path) -> None:
    rings: queue.SimpleQueue[None] = queue.SimpleQueue()

    def rung() -> bool:
        """Whether it rings; waits until it has ended to."""
        rings.get(timeout=SOON)
        with contextlib.suppress(queue.Empty):
            while True:
                rings.get(timeout=0.05)
        return True

    aside = tmp_path / "aside"
    (aside / "deep").mkdir(parents=True)
    (tmp_path / "real").mkdir()
    watched = tmp_path / "in"
    watched.symlink_to("real")
    with events(watched, lambda: rings.put(None), recursive=True) as blind:
        assert blind is None, "watchdog is part of naic[watch], which the tests need"
        (watched / "a.jpg").write_bytes(b"1")
        assert rung()
        (watched / "new").mkdir()
        assert rung()
        (watched / "new/b.jpg").write_bytes(b"1")
        assert rung()
        aside.rename(watched / "moved")
        assert rung()
        (watched / "moved/deep/.c.jpg").write_bytes(b"1")
        (watched / "moved/deep/.c.jpg").rename(watched / "moved/deep/c.jpg")
        assert rung()
    (watched / "d.jpg").write_bytes(b"1")
    assert rings.empty()


def test_without_watchdog_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "watchdog.events", None)
    with events(tmp_path, lambda: None, recursive=True) as blind:
        assert blind is not None
        assert blind.where == "naic[watch]"


def test_a_system_without_room_for_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from watchdog.observers import Observer

    def full(_: object) -> None:
        raise OSError(28, "inotify watch limit reached")

    monkeypatch.setattr(Observer, "start", full)
    with events(tmp_path, lambda: None, recursive=True) as blind:
        assert blind is not None
        assert blind.why == "its events cannot be had (inotify watch limit reached)"

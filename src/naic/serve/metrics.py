"""What the server tells Prometheus of itself. A registry of its own: two servers may be tested."""

from typing import TYPE_CHECKING

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest

if TYPE_CHECKING:
    from naic.serve.worker import Worker

CONTENT_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


_CAPTIONED = {"outcome": "captioned"}


class Metrics:
    """Counters of one server.

    Attributes:
        running: requests that are worked at, or wait, or arrive, by route.
        answered: seconds that a request took, by route and status.
        refused: requests that were refused, by route and status (`doors.REFUSALS`).
        received: bytes of bodies.
        images: images captioned, and images that could not be.
    """

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self.running = Gauge("naic_requests_running", "Requests now", ["route"], registry=registry)
        self.answered = Histogram(
            "naic_request_seconds",
            "Seconds from a request's first byte to its answer",
            ["route", "status"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.refused = Counter(
            "naic_requests_refused", "Requests refused", ["route", "status"], registry=registry
        )
        self.received = Counter("naic_received_bytes", "Bytes of bodies", registry=registry)
        self.images = Counter("naic_images", "Images by outcome", ["outcome"], registry=registry)
        self._sizes = Histogram(
            "naic_batch_images", "Images of a batch", buckets=_SIZES, registry=registry
        )
        self._took = Histogram(
            "naic_batch_seconds", "Seconds of a batch", buckets=_SECONDS, registry=registry
        )
        self.waiting = Gauge("naic_images_waiting", "Images in the queue", registry=registry)
        self.at_work = Gauge("naic_images_running", "Images of this batch", registry=registry)
        self.healthy = Gauge("naic_healthy", "1: /healthz says ok", registry=registry)
        for outcome in ("captioned", "unusable"):
            self.images.labels(outcome)

    def watch(self, worker: "Worker") -> None:
        """Tell of this worker's queue, whenever somebody asks."""
        self.waiting.set_function(lambda: worker.queued[0])
        self.at_work.set_function(lambda: worker.queued[1])

    def batch(self, size: int, seconds: float) -> None:
        """Hear of a batch."""
        self._sizes.observe(size)
        self._took.observe(seconds)

    def captions(self) -> float:
        """How many images were captioned."""
        return float(self._registry.get_sample_value("naic_images_total", _CAPTIONED) or 0.0)

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return generate_latest(self._registry)

"""Requests made from the server's own OpenAPI document, and answers held against it."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.serve.mutations import PATHS

CHECKS: list[Any] = [not_a_server_error, status_code_conformance]
CHECKS += [content_type_conformance, response_schema_conformance]


def send_documented(address: str, count: int, seconds: float = 60) -> Counter[tuple[str, int]]:
    """About `count` requests of each route, right and wrong; how often each status came."""
    statuses = Counter[tuple[str, int]]()
    for found in schemathesis.openapi.from_url(f"{address}/openapi.json").get_all_operations():
        route: Any = found.ok()  # type: ignore[union-attr]
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            if mode == GenerationMode.POSITIVE or route.method == "post":

                def ask(case: Any, path: str = route.path) -> None:
                    answer = case.call(base_url=address, timeout=seconds)
                    case.validate_response(answer, checks=CHECKS)
                    statuses[path, answer.status_code] += 1

                _tried(ask, route.as_strategy(generation_mode=mode), count)
    assert {*PATHS, "/healthz", "/metrics"} <= {path for path, _ in statuses}
    return statuses


def _tried(ask: Callable[[Any], None], cases: Any, count: int) -> None:
    """Ask for each of so many cases: always the same ones."""
    how = settings(
        max_examples=count,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=[*HealthCheck],
    )
    how(given(case=cases)(lambda case: ask(case)))()

"""Parts of serving.md: requests that are wrong, and the faults of other servers."""

from typing import Any

Run = dict[str, Any]
# The faults that were asked for, and the tests of each.
TESTS = {
    "an image of 1 x 1 pixel": "test_ours.py::test_a_photo_of_one_pixel_is_one",
    "100 clients that vanish, in the middle of a body, of the queue and of a batch": (
        "test_arrivals.py::test_clients_that_vanish_leave_nothing_behind"
    ),
    "one bad image in a request": "test_ours.py::test_a_bad_photo_fails_alone",
    "one image that fails its batch": (
        "test_run.py::test_one_that_cannot_be_captioned_does_not_fail_its_batch"
    ),
    "a worker that dies: /healthz says so, and the server ends": (
        "test_run.py::test_a_worker_that_died_is_told_and_ends_the_server"
    ),
    "a worker that hangs: /healthz says so": "test_run.py::test_a_worker_that_hangs_is_told",
    "a model that fails: /healthz says so, and it recovers": (
        "test_run.py::test_a_model_that_fails_is_told_by_its_check_and_recovers"
    ),
    "a full queue, at the batcher": (
        "test_batcher.py::test_a_full_queue_refuses_and_says_when_to_come_again"
    ),
    "a full queue, before a body is read": (
        "test_arrivals.py::test_where_there_is_no_room_no_body_is_waited_for"
    ),
    "too many requests at once, too many bytes of all": (
        "test_arrivals.py::test_requests_at_once_have_an_end"
    ),
    "the limit of a batch": "test_batcher.py::test_what_came_meanwhile_is_one_batch",
    "one byte over the limit": "test_arrivals.py::test_one_byte_over_the_limit",
    "an endless body in chunks": "test_arrivals.py::test_an_endless_body_is_ended",
    "a slow body": "test_arrivals.py::test_a_slow_body_is_not_waited_for",
    "100 slow sockets": "test_arrivals.py::test_slow_sockets_are_closed",
    "names with `<script>`, `../`, NUL, 300 letters, absolute": (
        "test_fuzz.py::test_a_name_changes_nothing_on_the_disk"
    ),
    "a wrong or missing token": "test_doors.py::test_a_wrong_or_missing_token_gets_401",
    "a foreign page": "test_doors.py::test_a_foreign_page_cannot_post",
    "SIGTERM with a model that hangs": (
        "test_run.py::test_the_end_does_not_wait_for_a_model_that_hangs"
    ),
}


def wrong_requests(faults: Run) -> str:
    """Requests that were sent, and how they were answered."""
    changed, made = faults["mutations"], faults["documented"]
    kinds = {
        "photo": "photos (JPEG, PNG, WebP, GIF, TIFF) with bytes changed, in a form",
        "form": "forms with their framing or their header changed",
        "json": "JSON with bytes changed, of all interfaces",
    }
    rows = "\n".join(
        f"| {kinds[kind]} | {sum(own.values()):,} | {_counts(own)} |"
        for kind, own in changed["kinds"].items()
    )
    routes = "\n".join(
        f"| `{path}` | {sum(own.values()):,} | {_counts(own)} |"
        for path, own in made["routes"].items()
    )
    return f"""## Requests that are wrong

{changed["sent"]:,} mutated uploads, four at once; the memory of the server grew by
{changed["grown, MiB"]:.0f} MiB from the hundredth to the last:

| | sent | answered |
|---|---|---|
{rows}

{made["sent"]:,} requests made by schemathesis from the OpenAPI document, right ones and wrong ones;
every answer has a status, a type and a form that the document tells of:

| route | sent | answered |
|---|---|---|
{routes}
"""


def _counts(statuses: dict[str, int]) -> str:
    return ", ".join(f"{status}: {times:,}" for status, times in sorted(statuses.items()))


def tests_of_faults() -> str:
    """Which test each fault has."""
    rows = "\n".join(f"| {fault} | `{test}` |" for fault, test in TESTS.items())
    return f"""## Faults

Each is a test of `tests/serve`, which CI runs:

| | |
|---|---|
{rows}
"""

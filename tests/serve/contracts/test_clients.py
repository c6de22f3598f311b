"""The official clients of OpenAI and Ollama, against a server that listens."""

from collections.abc import Iterator
from typing import Any

import ollama
import openai
import pytest

from tests.serve.fake import FULL, FakeService, data_url, sentence, serving


@pytest.fixture(scope="module")
def service() -> FakeService:
    return FakeService(bad=[b"bad"])


@pytest.fixture(scope="module")
def address(service: FakeService) -> Iterator[str]:
    with serving(service) as address:
        yield address


@pytest.fixture
def chatgpt(address: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{address}/v1", api_key="any", max_retries=0) as client:
        yield client


@pytest.fixture
def llama(address: str) -> Iterator[ollama.Client]:
    with ollama.Client(address) as client:
        yield client


@pytest.fixture
def full(service: FakeService) -> Iterator[None]:
    service.refusal = FULL
    yield
    service.refusal = None


def ask(*contents: bytes) -> Any:
    images = [{"type": "image_url", "image_url": {"url": data_url(data)}} for data in contents]
    return [{"role": "user", "content": [{"type": "text", "text": "What is this?"}, *images]}]


def given(content: bytes) -> Any:
    part = {"type": "input_image", "image_url": data_url(content), "detail": "auto"}
    return [{"role": "user", "content": [{"type": "input_text", "text": "?"}, part]}]


def test_openai_chat(chatgpt: openai.OpenAI) -> None:
    answer = chatgpt.chat.completions.create(model="gpt-4o", messages=ask(b"1", b"2"), n=2)
    first, second = answer.choices
    assert first.message.content == f"{sentence(b'1')}\n{sentence(b'2')}"
    assert second.message.content == f"{sentence(b'1', 1)}\n{sentence(b'2', 1)}"
    assert first.finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.total_tokens == 26


def test_openai_chat_as_a_stream(chatgpt: openai.OpenAI) -> None:
    chunks = [
        *chatgpt.chat.completions.create(
            model="naic",
            messages=ask(b"1"),
            stream=True,
            stream_options={"include_usage": True},
        )
    ]
    *said, last = chunks
    assert "".join(c.choices[0].delta.content or "" for c in said) == sentence(b"1")
    assert said[0].choices[0].delta.role == "assistant"
    assert said[-1].choices[0].finish_reason == "stop"
    assert last.choices == []
    assert last.usage is not None
    assert last.usage.completion_tokens == 6
    assert len({chunk.id for chunk in chunks}) == 1


def test_openai_chat_by_its_own_accumulator(chatgpt: openai.OpenAI) -> None:
    with chatgpt.chat.completions.stream(model="naic", messages=ask(b"1")) as stream:
        answer = stream.get_final_completion()
    assert answer.choices[0].message.content == sentence(b"1")
    assert answer.usage is None  # it was not asked for


def test_openai_responses(chatgpt: openai.OpenAI) -> None:
    answer = chatgpt.responses.create(model="gpt-5", input=given(b"1"))
    assert answer.output_text == sentence(b"1")
    assert answer.status == "completed"
    assert answer.usage is not None
    assert answer.usage.total_tokens == 7


def test_openai_responses_as_a_stream(chatgpt: openai.OpenAI) -> None:
    with chatgpt.responses.stream(model="naic", input=given(b"1")) as stream:
        events = [*stream]
        answer = stream.get_final_response()
    assert answer.output_text == sentence(b"1")
    kinds = [event.type for event in events]
    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
    said = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(said) == sentence(b"1")
    assert [event.sequence_number for event in events] == [*range(len(events))]


def test_openai_models(chatgpt: openai.OpenAI) -> None:
    (model,) = chatgpt.models.list()
    assert chatgpt.models.retrieve(model.id) == model
    assert model.id == "naic"
    with pytest.raises(openai.NotFoundError, match="this server has naic only"):
        chatgpt.models.retrieve("owner/other")


def test_openai_understands_what_went_wrong(chatgpt: openai.OpenAI) -> None:
    title: Any = [{"role": "user", "content": "Make a title of this chat."}]
    far: Any = [{"type": "image_url", "image_url": {"url": "https://example.org/a.jpg"}}]
    with pytest.raises(openai.BadRequestError, match="it has no image"):
        chatgpt.chat.completions.create(model="naic", messages=title)
    with pytest.raises(openai.UnprocessableEntityError, match="URLs are never fetched"):
        chatgpt.chat.completions.create(model="naic", messages=[{"role": "user", "content": far}])
    with pytest.raises(openai.UnprocessableEntityError, match="it is not an image"):
        chatgpt.responses.create(model="naic", input=given(b"bad"))


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize("stream", [False, True])
def test_openai_hears_of_a_full_queue(chatgpt: openai.OpenAI, stream: bool) -> None:
    with pytest.raises(openai.RateLimitError) as caught:
        chatgpt.chat.completions.create(model="naic", messages=ask(b"1"), stream=stream)
    assert caught.value.code == "rate_limit_exceeded"
    assert caught.value.response.headers["Retry-After"] == "7"
    with pytest.raises(openai.RateLimitError):
        chatgpt.responses.create(model="naic", input=given(b"1"), stream=stream)


def test_ollama_generate(llama: ollama.Client) -> None:
    whole = llama.generate("llava", "Describe it.", images=[b"1", b"2"])
    assert whole.response == f"{sentence(b'1')}\n{sentence(b'2')}"
    assert whole.done
    assert whole.total_duration is not None
    assert whole.total_duration > 0
    parts = [*llama.generate("llava", "Describe it.", images=[b"1"], stream=True)]
    assert "".join(part.response or "" for part in parts) == sentence(b"1")
    assert [part.done for part in parts] == [False, True]
    assert llama.generate("naic").done_reason == "load"


def test_ollama_chat(llama: ollama.Client) -> None:
    messages = [{"role": "user", "content": "What is this?", "images": [b"1"]}]
    assert llama.chat("llava", messages).message.content == sentence(b"1")
    parts = [*llama.chat("llava", messages, stream=True)]
    assert "".join(part.message.content or "" for part in parts) == sentence(b"1")
    assert parts[-1].eval_count == 6


def test_ollama_models(llama: ollama.Client) -> None:
    (model,) = llama.list().models
    assert model.model == "naic"
    assert model.modified_at is not None
    assert model.modified_at.year == 2023
    assert llama.show(model.model).capabilities == ["completion", "vision"]
    (running,) = llama.ps().models
    assert running.digest == model.digest


def test_ollama_understands_what_went_wrong(llama: ollama.Client) -> None:
    with pytest.raises(ollama.ResponseError, match="it has no image") as caught:
        llama.generate("naic", "Why is the sky blue?")
    assert caught.value.status_code == 400
    with pytest.raises(ollama.ResponseError, match="it is not an image"):
        list(llama.generate("naic", images=[b"bad"], stream=True))
    with pytest.raises(ollama.ResponseError, match="this server has naic only") as caught:
        llama.show("other")
    assert caught.value.status_code == 404


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize("stream", [False, True])
def test_ollama_hears_of_a_full_queue(llama: ollama.Client, stream: bool) -> None:
    ask: Any = llama.generate
    with pytest.raises(ollama.ResponseError) as caught:
        list(ask("naic", images=[b"1"], stream=stream))
    assert (caught.value.status_code, caught.value.error) == (429, str(FULL))

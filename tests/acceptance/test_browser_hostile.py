"""Agents' words are hostile: in a real browser none of more than 200 payloads runs, wherever it stands."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from taskfabric.services.verbs import (
    Attach,
    Chunks,
    Comment,
    Done,
    FenceArg,
    FileArg,
    Submit,
    SubmitMany,
    Take,
)
from taskfabric.testing import TestServer
from tests.acceptance.browser import browser, person
from tests.acceptance.payloads import PAYLOADS
from tests.integration.serving import Served, serving

# What only a payload can have brought in: elements that no page of ours has, and handlers, which none has.
_BROUGHT = """() => [
    ...document.querySelectorAll("main :is(script, iframe, img, object, embed, style, base, math, video, audio)," +
        "main :is(marquee, [srcdoc], a[href^='java' i], a[href^='data' i])"),
    ...[...document.querySelectorAll("*")].filter(one => [...one.attributes].some(a => a.name.startsWith("on"))),
].map(one => one.outerHTML.slice(0, 200))"""
_COUNTER = "window.hits = 0; window.hit = () => { window.hits += 1; };"


@pytest.fixture(scope="module")
def served(server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with server.database() as database, serving(database.dsn, tmp_path_factory.mktemp("home")) as running:
        database.clock.run()
        yield running


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as started:
        yield started


def _one_line(text: str) -> str:
    return " ".join(text.split())


def test_the_corpus_is_large_enough() -> None:
    assert len(PAYLOADS) >= 200


@pytest.fixture(scope="module")
def task(served: Served) -> int:
    """One task with every payload: as text, comment, output, note, and some as tags and file names."""
    alice, kimi = served.fabric("alice"), served.fabric("kimi")
    words = tuple({_one_line(p).replace(",", "")[:60] for p in PAYLOADS[:40]})
    made = alice.call(Submit(title=PAYLOADS[0], description="\n\n".join(PAYLOADS), to="pool", tags=words)).task.id
    for start in range(0, len(PAYLOADS), 40):
        alice.call(Comment(task=made, text="\n\n".join(PAYLOADS[start : start + 40])))
    for payload in PAYLOADS[:25]:
        name = _one_line(payload).replace("/", "_")[:100]
        alice.call(Attach(task=made, file=FileArg(name=name, data=base64.b64encode(b"x").decode())))
    _hang(served, made)
    fence = FenceArg.of(kimi.call(Take(task=made)).fence)
    kimi.call(Chunks(fence=fence, chunks=tuple((n, "out", payload) for n, payload in enumerate(PAYLOADS))))
    kimi.call(Done(fence=fence, note="\n\n".join(PAYLOADS)))
    alice.call(SubmitMany(tasks=tuple(Submit(title=_one_line(payload), to="alice") for payload in PAYLOADS)))
    return made


def _hang(served: Served, task: int) -> None:
    """Payloads as subtasks, links elsewhere, and what other tasks are called that it is linked to."""
    for payload in PAYLOADS[:60]:
        title = _one_line(payload)[:200]
        other = served.call("createTask", {"project_id": project(served), "title": title})["result"]
        for method, more in (
            ("createSubtask", {"title": title}),
            ("createTaskLink", {"opposite_task_id": other, "link_id": 1}),
            ("createExternalTaskLink", {"url": "https://example.org/", "dependency": "related", "title": title}),
        ):
            assert served.call(method, {"task_id": task, **more}).get("result"), (method, title)


def project(served: Served) -> int:
    """A project that is no queue, called like a payload."""
    name = _one_line(PAYLOADS[1])[:60]
    found = served.call("getProjectByName", {"name": name})["result"]
    return int(found["id"]) if found else int(served.call("createProject", {"name": name})["result"])


def _inert(page: Any, path: str) -> None:
    page.wait_for_load_state()
    assert page.evaluate("window.hits") == 0, path
    assert page.evaluate(_BROUGHT) == [], path


def test_no_payload_runs_on_any_page(served: Served, chromium: Any, task: int) -> None:
    with person(chromium, served, "alice") as page:
        page.add_init_script(_COUNTER)
        for path in (
            "/",
            "/?all=1",
            "/board/alice?all=1",
            f"/task/{task}",
            "/find?q=hit",
            "/activity",
            "/fleet",
            "/boards",
            f"/board/%23{project(served)}",
            "/people",
            "/settings",
        ):
            page.goto(served.url + path)
            _inert(page, path)
        page.goto(
            f"{served.url}/board/pool?text=%3Cimg+src%3Dx+onerror%3Dhit()%3E&tag=%22%3E%3Cscript%3Ehit()%3C/script%3E"
        )
        _inert(page, "filters")


def test_no_payload_runs_when_it_comes_by_a_stream(served: Served, chromium: Any) -> None:
    alice, kimi = served.fabric("alice"), served.fabric("kimi")
    watched = alice.call(Submit(title="Watched", to="pool")).task.id
    fence = FenceArg.of(kimi.call(Take(task=watched)).fence)
    with person(chromium, served, "alice") as page, person(chromium, served, "alice") as board:
        page.add_init_script(_COUNTER)
        board.add_init_script(_COUNTER)
        page.goto(f"{served.url}/task/{watched}")
        board.goto(f"{served.url}/board/pool")
        kimi.call(Chunks(fence=fence, chunks=tuple((n, "err", payload) for n, payload in enumerate(PAYLOADS))))
        page.wait_for_selector(f"#c-{len(PAYLOADS) - 1}", state="attached")
        made = alice.call(SubmitMany(tasks=tuple(Submit(title=_one_line(payload), to="pool") for payload in PAYLOADS)))
        board.wait_for_selector(f"#card-{made[-1].task.id}", state="attached")
        _inert(page, "output")
        _inert(board, "cards")

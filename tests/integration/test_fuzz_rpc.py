"""Bad input: whatever is sent, the answer is an answer: no fault, no detail of the server, nothing half-written."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any, Final

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taskfabric.services.verbs import BY_METHOD, List
from taskfabric.testing import TestServer
from taskfabric.wiring import SYSTEM, local_token
from tests.integration.serving import Served, serving

WEIRD: Final = (
    *(
        "",
        " ",
        "\x00",
        "a\x00b",
        "\n\r\t",
        "🦊",
        "👩‍👩‍👧‍👦",
        "\u202eabc\u202c",
        "\ufeff",
        "\u2028",
        "ﷺ" * 50,
        "a" * 300,
    ),
    *("<script>alert(1)</script>", "[x](javascript:1)", "'; DROP TABLE tasks; --", '"', "\\", "%s %(x)s {} ${x}"),
    *("NaN", "null", "12", "#12", "12@3", "-1", "0", "1e5", "9" * 30, "٣", "0x10", "../../etc/passwd", "file:///etc"),
    *(
        "pool",
        "auto",
        "any",
        "any:tier=large",
        "any:needs=",
        "any:trust=human",
        "any:queue=kimi",
        "alice",
        "kimi",
        "bob",
    ),
    *("blocked", "needs-input", "tier:large", "trust:human", "veto", "end", "0-0", "1-1", f"{2**64}-1", "99-99"),
)
DATES: Final = (
    *("2026-12-01T09:00:00+01:00", "2026-12-01T09:00:00Z", "2026-12-01", "2026-12-01T09:00:00", "0001-01-01T00:00:00Z"),
    *("9999-12-31T23:59:59-12:00", "9999-12-31T23:59:59.999999Z", "0001-01-01T00:00:00+14:00", "2026-02-30T00:00:00Z"),
    *(
        "2026-06-30T23:59:60Z",
        "+10000-01-01T00:00:00Z",
        "-0044-03-15T00:00:00Z",
        "tomorrow",
        "1e400",
        "20261201T090000Z",
    ),
)
FENCES: Final = ({"task": 1, "epoch": 1, "token": "0" * 16}, {"task": 1, "epoch": 2**61, "token": "f" * 16})

texts = st.one_of(st.sampled_from(WEIRD), st.sampled_from(DATES), st.text(st.characters(), max_size=40))
numbers = st.one_of(
    st.integers(-3, 30),
    st.sampled_from([2**31, 2**31 - 1, 2**53 + 1, 2**62, 2**63 - 1, 2**63, 2**64, 10**40, -(2**63), -(2**70)]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([1e308, 5e-324, -0.0, 0.1, 5.0]),
)
plain = st.one_of(st.none(), st.booleans(), numbers, texts)
anything = st.recursive(
    plain,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=8,
)
huge = st.sampled_from(
    [
        "x" * (2 * 2**20),
        "é" * 2**20,
        ["t"] * 10_000,
        [f"t{n}" for n in range(10_000)],
        {str(n): n for n in range(5_000)},
        10**300,
    ]
)


def tasks_near(served_ids: int = 30) -> st.SearchStrategy[object]:
    return st.one_of(st.integers(1, served_ids), st.integers(1, served_ids).map(str), st.just("1@1"))


def plausible(name: str, annotation: object) -> st.SearchStrategy[object]:
    """Mostly what this argument takes, so that the call reaches the hallway and the board."""
    shown = str(annotation)
    if name in ("task", "parent"):
        return tasks_near()
    if name == "after" and "tuple" in shown:
        return st.lists(tasks_near(), max_size=3)
    if name in ("due", "not_before", "until", "expires"):
        return st.sampled_from(DATES)
    if name == "fence":
        return st.sampled_from(FENCES)
    if name == "fences":
        return st.lists(st.sampled_from(FENCES), max_size=3)
    if name == "tasks":
        return st.lists(arguments("fabric.submit"), max_size=3)
    if name == "ends":
        return st.lists(st.fixed_dictionaries({"fence": st.sampled_from(FENCES), "note": texts}), max_size=3)
    if name in ("file", "attach"):
        file = st.fixed_dictionaries({"name": texts, "data": st.sampled_from(["", "aGk=", "!", "aGk", "é"])})
        return file if name == "file" else st.lists(file, max_size=2)
    if "tuple" in shown:
        return st.lists(texts, max_size=4)
    if "Literal" in shown or "Kind" in shown or "Role" in shown:
        words = ("life", "open", "pass", "fail", "pool", "inbox", "agent", "app-user", "project-member", "sandboxed")
        return st.sampled_from(words)
    if "bool" in shown:
        return st.booleans()
    if "int" in shown or "float" in shown:
        return numbers
    return texts


def arguments(method: str) -> st.SearchStrategy[dict[str, object]]:
    """Arguments for a verb, made from its own fields; now and then one is garbage, too large, or unknown."""
    fields = BY_METHOD[method].model_fields
    one = {
        name: st.one_of(plausible(name, field.annotation), plausible(name, field.annotation), anything)
        for name, field in fields.items()
    }
    needed = {name: value for name, value in one.items() if fields[name].is_required()}
    rest = {name: value for name, value in one.items() if name not in needed}
    known = st.fixed_dictionaries(needed, optional=rest)
    grown = st.tuples(known, st.sampled_from([*fields, "nonsense"]), huge).map(lambda got: {**got[0], got[1]: got[2]})
    lost = known.map(lambda got: dict(list(got.items())[1:]))
    return st.one_of(known, known, known, known, known, known, known, grown, lost)


METHODS: Final = sorted(set(BY_METHOD) - {"fabric.doctor"})  # a look at the whole house, without arguments
calls = st.sampled_from(METHODS).flatmap(
    lambda method: st.fixed_dictionaries(
        {"jsonrpc": st.just("2.0"), "id": st.just(1), "method": st.just(method), "params": arguments(method)}
    )
)


def _encoded(value: object) -> bytes:
    """As JSON in ASCII, so that a lone surrogate travels as its escape."""
    return json.dumps(value).encode()


bodies = st.one_of(
    anything.map(_encoded),
    st.fixed_dictionaries({"jsonrpc": st.just("2.0"), "id": plain, "method": texts, "params": anything}).map(_encoded),
    st.lists(calls, max_size=4).map(_encoded),
    st.binary(max_size=60),
)


class Fuzzed:
    """A served fabric and one connection to it that is kept."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.conn = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)

    def close(self) -> None:
        self.conn.close()

    def send(self, raw: bytes, name: str) -> Any:
        self.conn.request("POST", "/jsonrpc.php", raw, {"Authorization": f"Bearer {self.served.tokens[name]}"})
        reply = self.conn.getresponse()
        body = reply.read()
        if reply.status == 401:  # a call has taken away the caller's own credential
            house = self.served.house
            for somebody in house.credentials.principals():
                house.credentials.set_active(somebody.id, True, SYSTEM)
            self.served.tokens["alice"] = local_token(house, "alice")
            return None
        assert reply.status in (200, 204, 413), (reply.status, body[:500])
        answer = orjson.loads(body) if body else None
        for one in answer if isinstance(answer, list) else [answer]:
            check(one, raw)
        return answer


def check(answer: Any, raw: bytes) -> None:
    error = (answer or {}).get("error")
    if error is None:
        return
    assert error["code"] != -32603, (raw[:500], error)
    assert -32008 <= error["code"] <= -32001 or error["code"] in (-32000, -32600, -32601, -32602, -32700)
    assert len(error["message"]) < 2000, error
    for word in ("Traceback", "psycopg", "pydantic", "SQL", 'File "'):
        assert word not in error["message"]


EXAMPLES: Final = int(os.environ.get("FABRIC_FUZZ_EXAMPLES", "500"))
usual = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)
long = settings(usual, max_examples=20_000)


@pytest.fixture(scope="module")
def fuzzed(server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fuzzed]:
    home = tmp_path_factory.mktemp("home")
    short = timedelta(milliseconds=5)
    with (
        server.database() as database,
        serving(database.dsn, home, server__wait_cap=short) as served,
        closing(Fuzzed(served)) as made,
    ):
        for number in range(10):
            served.call("fabric.submit", {"title": f"task {number}", "to": ("pool", "kimi", "alice")[number % 3]})
        yield made
        assert whole(served) == []


def whole(served: Served) -> list[object]:
    """What is half-written on the board: nothing. Every task can be read, and its events are without a gap."""
    with served.house.database.connection() as conn:
        broken = conn.execute(
            "SELECT t.id, t.seq, count(j.id), max(j.seq) FROM tasks t LEFT JOIN journal j ON j.task_id = t.id AND"
            " j.seq IS NOT NULL GROUP BY t.id, t.seq HAVING count(j.id) <> t.seq OR max(j.seq) <> t.seq"
        ).fetchall()
        ids = [row[0] for row in conn.execute("SELECT id FROM tasks ORDER BY id").fetchall()]
    unreadable = [id for id in ids if served.house.board.get(id, None).id != id]
    served.fabric("alice").call(List(limit=1000))
    return [*broken, *unreadable]


@usual
@given(call=calls, name=st.sampled_from(["alice", "kimi"]))
def test_no_arguments_of_a_verb_make_the_server_fail(fuzzed: Fuzzed, call: dict[str, object], name: str) -> None:
    fuzzed.send(_encoded(call), name)


@usual
@given(raw=bodies)
def test_no_body_makes_the_server_fail(fuzzed: Fuzzed, raw: bytes) -> None:
    fuzzed.send(raw, "alice")


@pytest.mark.chaos
@long
@given(call=calls, name=st.sampled_from(["alice", "kimi"]))
def test_no_arguments_of_a_verb_make_the_server_fail_in_a_long_run(
    fuzzed: Fuzzed, call: dict[str, object], name: str
) -> None:
    fuzzed.send(_encoded(call), name)

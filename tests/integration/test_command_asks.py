"""A program that carries out a task asks for an approval, is woken by a human's decision, and uses it once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from taskfabric.domain.card import CommandSpec
from taskfabric.domain.outcome import Done
from taskfabric.domain.principal import Caller, Via
from taskfabric.domain.status import Status
from taskfabric.domain.task import Claimed
from taskfabric.runtimes.command import CommandRuntime
from taskfabric.runtimes.isolation import find
from taskfabric.services import verbs
from taskfabric.services.verbs import FenceArg
from taskfabric.testing import TestServer
from tests.integration.running import Told, make_card, make_job, never
from tests.integration.serving import Served, serving

ASK = r"""
call() {
    body='{"jsonrpc":"2.0","id":1,"method":"'$1'","params":'$2'}'
    exec 3<>/dev/tcp/127.0.0.1/${FABRIC_URL##*:}
    printf 'POST /jsonrpc.php HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\n' "$FABRIC_TOKEN" >&3
    printf 'Connection: close\r\nContent-Type: application/json\r\nContent-Length: %s\r\n\r\n%s' "${#body}" "$body" >&3
    cat <&3
    exec 3<&-
}
said=$(call fabric.approval.request '{"action":"mail.send","args":{"to":"bank"}}')
case $said in
    *'"allowed":true'*|*'"allowed": true'*)
        id=$(printf '%s' "$said" | grep -o '"id": *[0-9]*, *"task"' | grep -o '[0-9][0-9]*')
        call fabric.approval.consume '{"approval":'$id',"args":{"to":"bank"}}' | grep -c consumed_at ;;
    *) echo "asked: $said" ;;
esac
"""


@pytest.fixture
def served(server: TestServer, tmp_path: Path) -> Iterator[Served]:
    with server.database() as database, serving(database.dsn, tmp_path / "home") as running:
        yield running


def test_a_program_asks_waits_and_uses_what_a_human_decided(served: Served, tmp_path: Path) -> None:
    """G10"""
    bash = shutil.which("bash")
    if bash is None or not find().works:
        pytest.skip(f"needs bash and isolation: {find().reason}")
    card = make_card(command=CommandSpec(argv=(bash, "-c", ASK)))
    alice, kimi = served.fabric("alice"), served.fabric("kimi")
    made = alice.call(verbs.Submit(title="the work", to="kimi")).task

    def run(number: int) -> tuple[Claimed, Any]:
        [claimed] = kimi.call(verbs.Claim())
        token = kimi.call(verbs.RunToken(fence=FenceArg.of(claimed.fence)))["token"]
        workspace = tmp_path / f"run{number}"
        workspace.mkdir()
        job = make_job(card, workspace, url=served.url, run_token=token)
        return claimed, CommandRuntime(card).run(job, Told(), never).outcome

    _, outcome = run(1)
    assert isinstance(outcome, Done), outcome
    assert '"state": "pending"' in outcome.note or '"state":"pending"' in outcome.note
    assert alice.call(verbs.Show(task=made.id)).task.status is Status.WAITING

    person = served.house.credentials.principal("alice")
    assert person is not None
    signed_in = served.house.hallway.for_caller(Caller(principal=person, via=Via.SESSION))
    approval = signed_in.call(verbs.ShowApproval(task=made.id))
    signed_in.call(verbs.Approve(task=made.id, seen=approval["hash"]))

    claimed, outcome = run(2)
    assert isinstance(outcome, Done), outcome
    assert outcome.note.strip() == "1"
    assert signed_in.call(verbs.ShowApproval(approval=approval["id"]))["consumed_at"] is not None
    kimi.call(verbs.Done(fence=FenceArg.of(claimed.fence), note=outcome.note))

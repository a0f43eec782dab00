"""A program that carries out a task tries to approve its own work: with its own token, and with its owner's."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskfabric.domain.card import CommandSpec
from taskfabric.domain.outcome import Done
from taskfabric.domain.status import Status
from taskfabric.runtimes.command import CommandRuntime
from taskfabric.runtimes.isolation import find
from taskfabric.services import verbs
from taskfabric.services.verbs import FenceArg
from taskfabric.testing import TestServer
from tests.integration.running import Told, make_card, make_job, never
from tests.integration.serving import Served, serving

# $1 is the task, $2 the folder where the owner's credentials lie.
APPROVE = r"""
verify() {
    body='{"jsonrpc":"2.0","id":1,"method":"fabric.verify","params":{"task":'$1'}}'
    exec 3<>/dev/tcp/${FABRIC_URL#http://127.0.0.1:}
    printf 'POST /jsonrpc.php HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\nConnection: close\r\n' "$2" >&3
    printf 'Content-Type: application/json\r\nContent-Length: %s\r\n\r\n%s' "${#body}" "$body" >&3
    cat <&3
}
verify "$1" "$FABRIC_TOKEN"
verify "$1" "$(cat "$2"/credentials)"
verify "$1" ""
echo; echo tried
""".replace("/dev/tcp/${FABRIC_URL#http://127.0.0.1:}", "/dev/tcp/127.0.0.1/${FABRIC_URL##*:}")


@pytest.fixture
def served(server: TestServer, tmp_path: Path) -> Iterator[Served]:
    with server.database() as database, serving(database.dsn, tmp_path / "home") as running:
        yield running


def test_a_run_cannot_close_what_its_agent_produced(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The producer never verifies its result, and a run cannot become the human who may."""
    bash = shutil.which("bash")
    if bash is None or not find().works:
        pytest.skip(f"needs bash and isolation: {find().reason}")
    owner = tmp_path / "owner"
    owner.mkdir()
    (owner / "credentials").write_text(served.tokens["alice"])
    owner.chmod(0o755)
    monkeypatch.setenv("FABRIC_HOME", str(owner))
    alice, kimi = served.fabric("alice"), served.fabric("kimi")
    made = alice.call(verbs.Submit(title="the work", to="kimi")).task
    [claimed] = kimi.call(verbs.Claim())
    kimi.call(verbs.Done(fence=FenceArg.of(claimed.fence), note="done, believe me"))

    card = make_card(command=CommandSpec(argv=(bash, "-c", APPROVE, "approve", str(made.id), str(owner))))
    workspace = tmp_path / "run"
    workspace.mkdir()
    job = make_job(card, workspace, url=served.url, run_token=served.tokens["kimi"])
    result = CommandRuntime(card).run(job, Told(), never)

    assert isinstance(result.outcome, Done), result
    assert result.outcome.note.endswith("tried")
    assert result.outcome.note.count('"error"') == 3
    assert alice.call(verbs.Show(task=made.id)).task.status is Status.DONE
    assert alice.call(verbs.Verify(task=made.id)).status is Status.VERIFIED

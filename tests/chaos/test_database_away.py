"""The database restarts, is read-only, is full, or comes back from a backup: the board refuses clearly and goes on."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from taskfabric.db.embedded import Cluster, StopMode
from taskfabric.db.migrate import migrate
from taskfabric.domain.errors import FabricError, LeaseLost, NotFound, Unavailable
from taskfabric.domain.outcome import Done
from taskfabric.ports.signal import Change
from taskfabric.testing import Ownership, cluster_in, new_folder
from tests.chaos.arena import Arena, arena, pause, until

pytestmark = pytest.mark.chaos

RECOVERY = 15.0  # seconds after which everything must be back


def test_restarts_of_the_database_under_load_lose_and_double_nothing(mortal: Cluster, mortal_chaos: Arena) -> None:
    """Situation 4: fast and immediate restarts for forty seconds. G5, G6."""
    chaos, dice = mortal_chaos, random.Random(4)
    chaos.submit_many(300, max_attempts=50)
    for number in range(4):
        chaos.hire("kimi" if number % 2 else "qwen", lease=3.0, work=0.02, poll=0.2, mixed=True, batch=1 + number % 2)
    stop = threading.Event()
    feeder = threading.Thread(target=_feed, args=(chaos, stop))
    feeder.start()
    begun = time.monotonic()
    modes: list[StopMode] = ["fast", "immediate"]
    restarts = 0
    while time.monotonic() - begun < 40:
        pause(dice.uniform(5, 8))
        mortal.restart(modes[restarts % 2])
        restarts += 1
    stop.set()
    feeder.join()
    until(lambda: _nothing_left(chaos), within=60, what="every task ended")
    chaos.dismiss()
    calls = chaos.history()
    assert restarts >= 4
    assert any(call.state in ("unknown", "fail") for call in calls)  # the restarts were felt
    assert len({call.task for call in calls if call.verb == "submit" and call.state == "ok"}) > 20
    assert chaos.verdict() == []


def _feed(chaos: Arena, stop: threading.Event) -> None:
    """Submit with keys, each again until it is known to be there."""
    number = 0
    while not stop.is_set():
        number += 1
        while True:
            try:
                chaos.submit(f"fed {number}", key=f"fed-{number}", max_attempts=50)
            except Unavailable:
                pause(0.1)
                continue
            break
        pause(0.2)


def _nothing_left(chaos: Arena) -> bool:
    with contextlib.suppress(Unavailable):
        return chaos.left("ready", "working") == 0
    return False


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_who_listens_and_who_polls_both_recover_from_a_restart(
    mortal: Cluster, mortal_chaos: Arena, mode: StopMode
) -> None:
    """Situation 4. A worker that only listens and one that only polls each have a queue of their own."""
    chaos = mortal_chaos
    heard = threading.Event()
    chaos.bus.subscribe(lambda change: heard.set() if change == Change(project_id=chaos.pool.project_id) else None)
    deaf = chaos.queue("for the deaf one")
    chaos.hire("kimi", poll=600.0)
    chaos.hire("qwen", poll=0.2, hears=False, queue=deaf.project_id)
    first = [chaos.submit("one"), chaos.submit("two", project=deaf.project_id)]
    until(lambda: chaos.left("done") == len(first), within=RECOVERY, what="both work")
    mortal.restart(mode)
    until(lambda: chaos.bus.listening, within=RECOVERY, what="it listens again")
    heard.clear()
    for number in range(3):
        until(lambda n=number: _submitted(chaos, f"p{n}", chaos.pool.project_id), within=RECOVERY, what="a submit")  # type: ignore[misc]
        until(lambda n=number: _submitted(chaos, f"d{n}", deaf.project_id), within=RECOVERY, what="a submit")  # type: ignore[misc]
    until(lambda: chaos.left("done") == 8, within=RECOVERY, what="both work again")
    assert heard.wait(5)
    chaos.dismiss()
    assert chaos.verdict() == []


def _submitted(chaos: Arena, key: str, project: int) -> bool:
    with contextlib.suppress(Unavailable):
        chaos.submit(key, key=key, project=project)
        return True
    return False


def test_a_restored_backup_never_grants_an_epoch_again(mortal: Cluster, mortal_chaos: Arena, tmp_path: Path) -> None:
    """Situation 15: workers hold leases that the copy has never granted. G2."""
    chaos, kimi = mortal_chaos, mortal_chaos.agents["kimi"]
    tasks = [chaos.submit(f"task {number}").id for number in range(6)]
    old = chaos.board.claim(chaos.want(lease=timedelta(hours=1)), 2, kimi)  # in the copy
    mortal.backup(tmp_path / "saved")
    future = chaos.board.claim(chaos.want(lease=timedelta(hours=1)), 2, kimi)  # not in the copy
    before = {got.fence.task_id: got.fence.epoch for got in [*old, *future]}
    assert mortal.restore(tmp_path / "saved", force=True).lifts == 1
    for got in [*old, *future]:
        assert chaos.board.renew([got.fence], None, kimi)[0].until is None
        with pytest.raises((LeaseLost, NotFound)):
            chaos.board.settle(got.fence, Done(note="from the future"), kimi)
    again = chaos.board.claim(chaos.want(), 6, chaos.agents["qwen"])
    assert sorted(got.fence.task_id for got in again) == sorted(tasks)
    assert all(got.fence.epoch > 1_000_000 >= before.get(got.fence.task_id, 0) for got in again)
    # The same file once more: what was granted since then is below again.
    assert mortal.restore(tmp_path / "saved", force=True).lifts == 2
    third = chaos.board.claim(chaos.want(), 6, chaos.agents["qwen"])
    assert all(got.fence.epoch > 2_000_000 for got in third)
    assert {got.task.attempts for got in third} == {1}
    # What the clients were told after the copy was made is not in its journal, so only the board's side is judged.
    assert chaos.verdict_of_board() == []


def test_a_database_that_was_set_read_only_refuses_clearly_and_recovers(mortal: Cluster, mortal_chaos: Arena) -> None:
    """Situation 16."""
    chaos, kimi = mortal_chaos, mortal_chaos.agents["kimi"]
    chaos.submit_many(3)
    (held,) = chaos.board.claim(chaos.want(lease=timedelta(hours=1)), 1, kimi)
    with psycopg.connect(mortal.superuser_dsn(), autocommit=True) as root:
        root.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        root.execute("SELECT pg_reload_conf()")
        until(lambda: _refuses(chaos), within=5, what="it is read-only")
        for attempt in (
            lambda: chaos.submit("not now"),
            lambda: chaos.board.claim(chaos.want(), 1, kimi),
            lambda: chaos.board.renew([held.fence], None, kimi),
            lambda: chaos.board.settle(held.fence, Done(note="not now"), kimi),
            lambda: chaos.board.cancel(held.task.id, "not now", chaos.alice),
        ):
            with pytest.raises(Unavailable, match="read-only") as refused:
                attempt()
            assert refused.value.facts["sent"] is False
        assert chaos.board.get(held.task.id, None).status.value == "working"  # reading goes on
        root.execute("SET default_transaction_read_only = off")
        root.execute("ALTER SYSTEM RESET default_transaction_read_only")
        root.execute("SELECT pg_reload_conf()")
    until(lambda: not _refuses(chaos), within=5, what="it can be written again")
    assert chaos.board.settle(held.fence, Done(note="now"), kimi).status.value == "done"
    assert chaos.verdict() == []


def _refuses(chaos: Arena) -> bool:
    try:
        chaos.board.renew([], None, chaos.agents["kimi"])
        chaos.board.comment(1, "?", chaos.alice)
    except Unavailable:
        return True
    return False


@contextlib.contextmanager
def _small_disk(megabytes: int) -> Iterator[Path]:
    """A file system of so many megabytes that a server may use; skips where that is not allowed."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root may mount a small file system")
    folder = new_folder()
    how = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0711", "tmpfs", str(folder)]
    done = subprocess.run(how, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        folder.rmdir()
        pytest.skip(f"mounting is not allowed here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)
        folder.rmdir()


def test_a_full_disk_refuses_clearly_and_the_board_recovers(tmp_path: Path) -> None:
    """Situation 16."""
    with _small_disk(160) as folder:
        owner = Ownership(folder)
        cluster = cluster_in(folder, options={"max_wal_size": "32MB", "min_wal_size": "32MB", "wal_recycle": "off"})
        try:
            migrate(cluster.start())
            _fill_and_recover(cluster, folder, tmp_path)
        finally:
            owner.end()


def _fill_and_recover(cluster: Cluster, folder: Path, history: Path) -> None:
    with arena(cluster.dsn(), history) as chaos:
        kimi = chaos.agents["kimi"]
        tasks = [made.task.id for made in chaos.submit_many(20)]
        held = chaos.board.claim(chaos.want(lease=timedelta(hours=1)), 5, kimi)
        ballast = folder / "ballast"
        with ballast.open("wb") as file, contextlib.suppress(OSError):
            while True:
                file.write(b"x" * 65536)
                file.flush()
        refusals = []
        for number in range(60):
            try:
                chaos.submit(f"does not fit {number}", description="long " * 60_000)
            except FabricError as error:
                refusals.append(error)
                break
        assert isinstance(refusals[0], Unavailable)
        ballast.unlink()
        until(lambda: _accepts(cluster, chaos), within=30, what="it accepts again")
        for got in held:
            assert chaos.board.settle(got.fence, Done(note="kept"), kimi).status.value == "done"
        assert all(chaos.board.get(task, None) for task in tasks)
        assert chaos.verdict() == []
        with psycopg.connect(cluster.superuser_dsn("fabric"), autocommit=True) as root:
            root.execute("CREATE EXTENSION IF NOT EXISTS amcheck")
            root.execute(
                "SELECT bt_index_check(indexrelid) FROM pg_index JOIN pg_class ON oid = indexrelid"
                " WHERE relam = 403 AND relkind = 'i' AND relpersistence <> 't'"
            )


def _accepts(cluster: Cluster, chaos: Arena) -> bool:
    try:
        cluster.start()
        chaos.submit("fits again")
    except FabricError:
        return False
    return True


def test_a_process_that_lives_through_a_restore_forgets_what_it_remembered(
    mortal: Cluster, mortal_chaos: Arena, tmp_path: Path
) -> None:
    """Situation 15: numbers that were given after the copy was made are given again, for other lanes."""
    chaos = mortal_chaos
    chaos.submit("in the copy")
    mortal.backup(tmp_path / "saved")
    chaos.submit("low", priority=2)  # a lane that the copy does not have
    assert chaos.board.claim(chaos.want(), 2, chaos.agents["kimi"])  # this process has learned its number
    mortal.restore(tmp_path / "saved", force=True)
    with arena(mortal.dsn(), tmp_path, name="other") as other:
        other.submit("asks for much", priority=1, tier="large")  # the number of that lane is given to this one
        low = chaos.submit("low again", priority=2)
        seen = other.board.get(low.id, None)
    assert (seen.priority, seen.tier) == (2, "")

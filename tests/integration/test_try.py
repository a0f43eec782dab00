from datetime import timedelta
from taskfabric.domain.outcome import *
from taskfabric.domain.errors import *
from taskfabric.domain.status import Status
from taskfabric.ports.board import Edit, Place, Filter
import pytest


def test_try(rig):
    b = rig.board
    k, q, a, bob = (rig.people[n] for n in ("kimi", "qwen", "alice", "bob"))
    print(b.hello())
    t = rig.submit(
        "one", description="do it", refs=("file:README.md",), tags=("home", "Garden"), key="k1", body_hash=b"x"
    )
    t2 = rig.submit("one", key="k1", body_hash=b"x")
    assert t2.id == t.id
    with pytest.raises(KeyConflict):
        rig.submit("one", key="k1", body_hash=b"y")
    assert rig.task(t.id).to_json() == t.to_json(), (rig.task(t.id), t)
    c = rig.claimed()
    assert c.task.status is Status.WORKING and c.task.holder == "kimi"
    assert rig.claim("qwen") is None
    with pytest.raises(HeldBy):
        b.take(t.id, rig.want(), q)
    r = b.renew([c.fence], None, k)
    print(r)
    d = b.settle(c.fence, Done(note="there"), k)
    assert d.status is Status.DONE and d.note == "there" and d.producer == "kimi"
    assert rig.task(t.id).note == "there"
    with pytest.raises(LeaseLost):
        b.settle(c.fence, Done(note="again"), k)
    print(b.thread(t.id, rig.viewer("alice")))
    rj = b.reject(t.id, "no good", a)
    assert rj.status is Status.READY and rj.attempts == 0
    c = rig.claimed("qwen")
    for o in (Parked(until=b.now() + timedelta(hours=1), reason="quota"),):
        p = b.settle(c.fence, o, q)
        assert p.status is Status.READY and p.not_before, p
    assert rig.claim() is None
    rig.test_database.clock.set(b.now() + timedelta(hours=1, seconds=1))
    c = rig.claimed()
    w = b.settle(c.fence, Waiting(question="which?", of_id=a.principal_id), k)
    assert w.status is Status.WAITING and w.asked == "alice"
    an = b.answer(t.id, "this", a)
    assert an.status is Status.READY
    c = rig.claimed()
    f = b.settle(c.fence, Failed(error="boom"), k)
    assert f.status is Status.READY and f.attempts == 1, f
    rig.test_database.clock.advance(timedelta(seconds=31))
    c = rig.claimed()
    rig.test_database.clock.advance(timedelta(minutes=11))
    c2 = rig.claimed("qwen")
    assert c2.task.id == t.id and c2.task.attempts == 3
    with pytest.raises(LeaseLost):
        b.settle(c.fence, Done(note="late"), k)
    dd = b.settle(c2.fence, Failed(error="bad"), q)
    assert dd.status is Status.DEAD and dd.error == "bad", dd
    rd = b.redrive(t.id, "again", a)
    assert rd.status is Status.READY
    for e in b.thread(t.id, rig.viewer("alice")).entries:
        print(e.text)
    print(b.thread(t.id, rig.viewer("alice")).late_results)
    # deps
    x = rig.submit("x")
    y = rig.submit("y", after=(x.id,))
    z = rig.submit("z", after=(x.id, y.id))
    assert y.open_blockers == 1 and z.blockers == (x.id, y.id)
    b.cancel(t.id, "nah", a)
    c = rig.claimed()
    assert c.task.id == x.id
    assert rig.claim() is None
    b.settle(c.fence, Done(note="x"), k)
    c = rig.claimed()
    assert c.task.id == y.id
    b.settle(c.fence, Done(note="y", verdict="fail"), k)
    zz = rig.task(z.id)
    assert zz.status is Status.HELD and zz.open_blockers == 1, zz
    print(zz.hold)
    b.redrive(z.id, "anyway", a)
    assert rig.task(z.id).status is Status.READY and rig.task(z.id).open_blockers == 0
    # parents
    c = rig.claimed()
    assert c.task.id == z.id
    ch = rig.submit("child", parent=z.id, by="kimi")
    assert rig.task(z.id).children == 1
    b.settle(c.fence, WaitingOnChildren(), k)
    assert rig.task(z.id).status is Status.WAITING
    c = rig.claimed("qwen")
    assert c.task.id == ch.id
    b.settle(c.fence, Done(note="c"), q)
    assert rig.task(z.id).status is Status.READY, rig.task(z.id)
    print(b.tree(z.id, rig.viewer("alice")), b.kinship(z.id))
    many = b.claim(rig.want(), 5, k)
    print(len(many))
    r = b.settle_many([(m.fence, Done(note="m")) for m in many], k)
    print(r)
    e = b.edit(
        ch.id, Edit(title="new", priority=3, score=5, description="d", add_tags=("a", "B"), remove_tags=("b",)), a
    )
    print(e)
    ts = [rig.submit(f"m{i}") for i in range(5)]
    b.move(ts[3].id, Place(top=True), a)
    assert rig.claimed().task.id == ts[3].id
    b.move(ts[4].id, Place(after=ts[0].id), a)
    assert [rig.claimed().task.id for _ in range(4)] == [ts[i].id for i in (0, 4, 1, 2)]
    mv = b.move(ts[0].id, Place(column="Done"), a)
    assert mv.status is Status.DONE and mv.producer == "alice"
    mv = b.move(ts[0].id, Place(column="Ready"), a)
    assert mv.status is Status.READY
    print(b.find(Filter(text="m0"), rig.viewer("alice")), b.count(rig.viewer("kimi")))
    b.comment(ts[0].id, "hi", bob)
    b.attach(ts[0].id, "f.txt", 3, "ab", a, None)
    v = b.settle_by_hand(ts[0].id, Done(note="self"), a)
    assert v.status is Status.VERIFIED
    # priorities & aging
    lo = rig.submit("lo", priority=0)
    hi = rig.submit("hi", priority=3)
    assert rig.claimed().task.id == hi.id
    hi2 = rig.submit("hi", priority=3)
    rig.test_database.clock.advance(timedelta(hours=5))
    hi3 = rig.submit("hi", priority=3)
    print([(x.title, x.status) for x in b.find(Filter(statuses=(Status.READY,)), rig.viewer("kimi"))])
    c = rig.claimed()
    print(c.task.title, c.task.id)

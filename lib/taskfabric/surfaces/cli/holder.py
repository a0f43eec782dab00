"""Commands of whoever works: claim, take, renew, and the ways in which a run ends."""

from __future__ import annotations

import argparse
from typing import Any, Final

from taskfabric.domain.errors import LeaseLost, NotFound
from taskfabric.domain.lease import Fence, TaskRef
from taskfabric.surfaces.cli import render
from taskfabric.surfaces.cli.command import Command, Context, Parser, Shape
from taskfabric.surfaces.cli.submit import read_text
from taskfabric.surfaces.cli.tasks import file_arg, print_task


def claim(ctx: Context, queue: str | None = None) -> Shape:
    """The next task, its fence kept. Raises NotFound when there is none to claim."""
    granted: list[Shape] = ctx.ask("claim", queue=queue, limit=1)
    if not granted:
        where = f" in {queue}" if queue else ""
        raise NotFound(f"nothing to claim{where}", next="`fabric list` shows what waits for something; try again later")
    return keep(ctx, granted[0])


def take(ctx: Context, ref: str) -> Shape:
    """This very task, its fence kept. Raises HeldBy, IllegalMove or NotFound."""
    return keep(ctx, ctx.ask("take", task=ref))


def keep(ctx: Context, granted: Shape) -> Shape:
    """Store the fence of a grant in the lease folder."""
    ctx.leases.store(granted["fence"], granted["lease_until"])
    return granted


def end(ctx: Context, method: str, ref: str, **says: object) -> Shape:
    """End a run with the fence kept for it; the task as it stands then.

    Without a fence the server is asked to take it as the caller's own act: it lets humans do so and answers NoFence
    to everybody else. A ref with an epoch always needs its fence. Raises NoFence or LeaseLost.
    """
    wanted = TaskRef.parse(ref)
    leases = ctx.leases
    fence = leases.find(wanted) if wanted.epoch is None else leases.need(wanted)
    who: dict[str, object] = {"task": wanted.id} if fence is None else {"fence": fence_arg(fence)}
    with leases.ending(fence):
        task: Shape = ctx.ask(method, **who, **says)
    return task


def fence_arg(fence: Fence) -> dict[str, Any]:
    """A fence as it travels."""
    return {"task": fence.task_id, "epoch": fence.epoch, "token": fence.hex}


def renew(ctx: Context, ref: str, lease: float | None = None) -> Shape:
    """Prolong a lease. Raises NoFence, or LeaseLost with who has the task now; the fence stays, for a late result."""
    fence = ctx.leases.need(TaskRef.parse(ref))
    answer: Shape = ctx.ask("renew", fences=[fence_arg(fence)], lease=lease)[0]
    if answer["until"] is None:
        has = f"{answer['holder']} has it now" if answer["holder"] else "nobody has it now"
        raise LeaseLost(
            f"the lease {fence} is lost; {has}",
            next=f"stop working on it; `fabric done {fence} --note …` still keeps what you have as a late result",
            task=fence.task_id,
            epoch=fence.epoch,
            holder=answer["holder"],
        )
    return answer


# ------------------------------------------------------------------ commands


def _granted(ctx: Context, task: Shape) -> int:
    out = ctx.out
    if out.as_json:
        out.json(task)
        return 0
    out.line(task["ref"])
    render.card(out, task)
    out.line(out.paint(f"\n`fabric done {task['ref']} --note …` when it is finished", "dim"))
    return 0


def _add_claim(parser: Parser) -> None:
    parser.add_argument("--queue", metavar="Q", help="of this queue only; default: your own, then your pools")


def _ref(parser: Parser) -> None:
    parser.add_argument("ref", metavar="REF", help="12@3 as claim printed it, or 12")


def _note(parser: Parser, what: str, *, required: bool = True) -> None:
    _ref(parser)
    parser.add_argument("--note", metavar="N", required=required, help=f"{what}; - reads standard input")


def note_of(args: argparse.Namespace) -> str | None:
    """The note, from standard input where it is ``-``."""
    return read_text("-") if args.note == "-" else args.note


def _renew(ctx: Context, args: argparse.Namespace) -> int:
    answer = renew(ctx, args.ref)
    if ctx.out.as_json:
        ctx.out.json({"ref": f"{answer['task']}@{answer['epoch']}", **answer})
    else:
        ctx.out.line(f"{answer['task']}@{answer['epoch']} is yours until {ctx.out.when(answer['until'], zone=True)}")
    return 0


def _add_done(parser: Parser) -> None:
    _note(parser, "the result, Markdown")
    parser.add_argument(
        "--verdict", choices=("pass", "fail"), help="fail: the work says no, and blocks what waits for it"
    )
    parser.add_argument("--attach", metavar="F", action="append", help="a file that belongs to the result; repeatable")


def _done(ctx: Context, args: argparse.Namespace) -> int:
    files = [file_arg(name) for name in args.attach] if args.attach else None
    task = end(ctx, "done", args.ref, note=note_of(args), verdict=args.verdict, attach=files)
    said = "is verified and closed" if task["status"] == "verified" else "is done; somebody else verifies it"
    return print_task(ctx, task, f"#{task['id']} {said}")


def _add_park(parser: Parser) -> None:
    _note(parser, "why")
    parser.add_argument("--until", metavar="T", required=True, help="not before; for example +2h or tomorrow 09:00")


def _park(ctx: Context, args: argparse.Namespace) -> int:
    task = end(ctx, "park", args.ref, note=note_of(args), until=ctx.when(args.until))
    return print_task(ctx, task, f"#{task['id']} is parked until {ctx.out.when(task['not_before'], zone=True)}")


def _add_ask(parser: Parser) -> None:
    _note(parser, "the question")
    parser.add_argument("--of", metavar="WHO", help="a human; default: the one for whom the task was made")


def _ask(ctx: Context, args: argparse.Namespace) -> int:
    task = end(ctx, "ask", args.ref, note=note_of(args), of=args.of)
    return print_task(ctx, task, f"#{task['id']} waits for an answer from {task['asked'] or 'any human of its queue'}")


def _add_fail(parser: Parser) -> None:
    _note(parser, "what went wrong")
    parser.add_argument("--final", action="store_true", default=None, help="no further try: to the dead letters")


def _fail(ctx: Context, args: argparse.Namespace) -> int:
    task = end(ctx, "fail", args.ref, note=note_of(args), final=args.final)
    spent = f"attempt {task['attempts']} of {task['max_attempts']}"
    rest = f"; again {ctx.out.when(task['not_before'])}" if task["not_before"] and task["status"] == "ready" else ""
    return print_task(ctx, task, f"#{task['id']} is {task['status']}, {spent}{rest}")


def _release(ctx: Context, args: argparse.Namespace) -> int:
    task = end(ctx, "release", args.ref, note=note_of(args))
    return print_task(ctx, task, f"#{task['id']} is {task['status']} again")


COMMANDS: Final = (
    Command(
        name="claim",
        help="Take what comes next. Prints its ref (12@3) first; exit code 3 when there is nothing.",
        add=_add_claim,
        run=lambda ctx, args: _granted(ctx, claim(ctx, args.queue)),
        examples=("fabric claim", "fabric claim --queue pool --json"),
    ),
    Command(
        name="take",
        help="Take this very task.",
        add=_ref,
        run=lambda ctx, args: _granted(ctx, take(ctx, args.ref)),
        examples=("fabric take 12",),
    ),
    Command(
        name="renew",
        help="Prolong a lease that you hold.",
        add=_ref,
        run=_renew,
        examples=("fabric renew 12@3",),
    ),
    Command(
        name="done",
        help="Finished. The task stays open until somebody else verifies it.",
        add=_add_done,
        run=_done,
        examples=(
            'fabric done 12@3 --note "README.md has three parts: …"',
            "fabric done 12@3 --note - --attach report.pdf < result.md",
            'fabric done 12@3 --verdict fail --note "the tests do not pass"',
        ),
    ),
    Command(
        name="park",
        help="Back to Ready, not before an instant. Costs no attempt.",
        add=_add_park,
        run=_park,
        examples=('fabric park 12@3 --until +2h --note "the quota is spent"',),
    ),
    Command(
        name="ask",
        help="Stop until somebody answers. Costs no attempt.",
        add=_add_ask,
        run=_ask,
        examples=('fabric ask 12@3 --note "Which of the two branches?" --of alice',),
    ),
    Command(
        name="fail",
        help="The attempt failed: again after a rest, or a dead letter when the attempts are spent.",
        add=_add_fail,
        run=_fail,
        examples=('fabric fail 12@3 --note "no network"', 'fabric fail 12@3 --final --note "there is no such branch"'),
    ),
    Command(
        name="release",
        help="Give it back unworked. Costs no attempt.",
        add=lambda parser: _note(parser, "why", required=False),
        run=_release,
        examples=("fabric release 12@3",),
    ),
)

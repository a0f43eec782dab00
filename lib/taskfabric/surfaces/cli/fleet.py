"""Commands about agents: who is open and until when, what is wrong with the cards, pause and resume."""

from __future__ import annotations

import argparse
from typing import Final

from taskfabric.surfaces.cli.command import Command, Context, Parser, Shape
from taskfabric.surfaces.cli.output import one_line

_COLOURS: Final = {"open": "green", "urgent": "yellow", "closed": "yellow", "off": "dim", "broken": "red"}


def _add_agents(parser: Parser) -> None:
    parser.add_argument("what", metavar="check", nargs="?", choices=["check"], help="check the card files instead")


def _agents(ctx: Context, args: argparse.Namespace) -> int:
    return _check(ctx) if args.what == "check" else _roster(ctx)


def _roster(ctx: Context) -> int:
    out = ctx.out
    agents: list[Shape] = ctx.ask("agents")
    if out.as_json:
        out.json(agents)
        return 0
    if not agents:
        out.line("there are no agents here that you may know of")
        return 0
    head = ["agent", "state", "why", "until", "queue", "runs", "quota left"]
    out.table([_row(ctx, agent) for agent in agents], head=head, stretch=2)
    for agent in agents:
        if agent["problem"]:
            out.line(out.paint(f"{one_line(agent['name'])}: {one_line(agent['problem'])}", "red"))
        elif agent["enabled"] and not agent["open"] and agent["next"]:
            out.line(out.paint(f"{one_line(agent['name'])}: {one_line(agent['next'])}", "dim"))
    return 0


def state(agent: Shape) -> str:
    """How it is, in one word."""
    if not agent["kind"]:
        return "broken"
    if not agent["enabled"]:
        return "off"
    if not agent["open"]:
        return "closed"
    return "open" if agent["background"] else "urgent"


def _row(ctx: Context, agent: Shape) -> list[str]:
    queue, word = agent["queue"], state(agent)
    depth = f"{queue['waiting']}" + (f" +{queue['working']}" if queue["working"] else "")
    runs = f"{agent['running']}/{agent['concurrency']}" if agent["kind"] not in ("human", "") else ""
    until = ctx.out.when(agent["until"]) if agent["until"] and word != "off" else ""
    return [
        agent["name"],
        word,
        agent["description"] if word == "off" else agent["why"] or agent["description"],
        until,
        depth,
        runs,
        ", ".join([*(_left(ctx, quota) for quota in agent["quota"]), *(_said(ctx, one) for one in agent["learned"])]),
    ]


def _said(ctx: Context, one: Shape) -> str:
    """What the provider says is left of a window of its own."""
    reset = f" until {ctx.out.when(one['reset'])}" if one["reset"] else ""
    return f"{1 - one['used']:.0%} ({one_line(one['window'])}, says the provider{reset})"


def _left(ctx: Context, quota: Shape) -> str:
    unit = "" if quota["unit"] == "runs" else f" {quota['unit']}"
    reset = f" until {ctx.out.when(quota['reset'])}" if quota["reset"] else ""
    return f"{quota['left']} of {quota['limit']}{unit} ({quota['window']}{reset})"


def _check(ctx: Context) -> int:
    """Exit code 1 when a card cannot be used."""
    out = ctx.out
    findings: list[Shape] = ctx.ask("agents.check")
    if out.as_json:
        out.json(findings)
    elif not findings:
        out.line("every agent card is in order")
    else:
        for found in findings:
            colour = "red" if found["state"] == "fail" else "yellow"
            out.line(f"{out.paint(found['state'], colour)}  {one_line(found['card'])} {one_line(found['text'])}")
    return 1 if any(found["state"] == "fail" for found in findings) else 0


def _add_pause(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", help="the agent, as `fabric agents` lists it")
    parser.add_argument("--until", metavar="T", help="when it goes on by itself; default: when it is resumed")
    parser.add_argument("--note", metavar="N", default="", help="why, for the others")


def _pause(ctx: Context, args: argparse.Namespace) -> int:
    got: Shape = ctx.ask("pause", name=args.name, until=ctx.when(args.until), note=args.note)
    if ctx.out.as_json:
        ctx.out.json(got)
        return 0
    until = f"until {ctx.out.when(got['until'], zone=True)}" if got["until"] else "until you resume it"
    ctx.out.line(f"{one_line(got['name'])} starts nothing more {until}; what runs goes on")
    return 0


def _add_resume(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME")
    parser.add_argument(
        "--account", action="store_true", default=None, help="open its account as well, which a provider's limit closed"
    )


def _resume(ctx: Context, args: argparse.Namespace) -> int:
    got: Shape = ctx.ask("resume", name=args.name, account=args.account)
    if ctx.out.as_json:
        ctx.out.json(got)
        return 0
    done = [
        text
        for holds, text in (
            (got["was_paused"], "is not paused any more"),
            (got["account_opened"], "has its account open again"),
        )
        if holds
    ]
    ctx.out.line(f"{one_line(got['name'])} " + (" and ".join(done) or "was not paused"))
    return 0


COMMANDS: Final = (
    Command(
        name="agents",
        help="Every agent: open or closed, why and until when, its queue, its runs, its quota.",
        add=_add_agents,
        run=_agents,
        examples=("fabric agents", "fabric agents check", "fabric agents --json"),
    ),
    Command(
        name="pause",
        help="An agent starts nothing more, for a while or until it is resumed.",
        add=_add_pause,
        run=_pause,
        examples=("fabric pause kimi", 'fabric pause kimi --until "tomorrow 09:00" --note "the key is renewed"'),
    ),
    Command(
        name="resume",
        help="A paused agent goes on.",
        add=_add_resume,
        run=_resume,
        examples=("fabric resume kimi", "fabric resume kimi --account"),
    ),
)

"""The command runtime: carries out a task with a program, a coding CLI or any other.

The program is an argument vector, never a shell's line. It finds an empty environment plus what its card grants, a
workspace of its own, and nothing of the owner's (``isolation``). How the run ended it says by its exit code or, better,
by a result file (``result_file``):

    0   done, its output is the note       75  parked for ten minutes (a temporary failure)
    7   needs input, its output asks       77  refused for good
    any other: failed; its last words are in the worker's log, under a number that the failure names

A limit of its provider is looked for only in what the program itself says of its failure.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import IO, Final

from taskfabric.domain.card import AgentCard, CommandSpec
from taskfabric.domain.errors import BadInput, Unavailable
from taskfabric.domain.limit import Limit, LimitClass
from taskfabric.domain.outcome import Declined, Done, Failed, Outcome, Parked, Waiting
from taskfabric.ports.runtime import Job, Progress, Result
from taskfabric.runtimes import isolation as isolating
from taskfabric.runtimes import limits, prompt, result_file, shapes
from taskfabric.runtimes.incidents import incident
from taskfabric.runtimes.isolation import Cell, Grant, Isolation, Run
from taskfabric.runtimes.output import Output

_TICK: Final = 0.2  # seconds between two looks at a run
_LAST: Final = 5.0  # seconds for reading what is left in a pipe
_BUDGET: Final = 100_000  # characters of the prompt
_ARGUMENT: Final = 100_000  # the kernel takes 128 KiB for one argument
_REST: Final = timedelta(minutes=10)
_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_OWN: Final = ("FABRIC_", "KANBOARD_", "PG", "LD_", "PYTHON")  # never granted: ours, or how to become another program
_PIPES: Final = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
_MET: Final = frozenset({LimitClass.THROTTLE, LimitClass.OVERLOAD, LimitClass.EXHAUSTED})
_EVIDENCE: Final = 400  # characters of a failure's last words
_KIND: Final = re.compile(r"error_[a-z_]{1,40}")


class CommandRuntime:
    """Runs the card's program. Raises BadInput for a card that cannot work, Refused where it may not run here."""

    def __init__(
        self,
        card: AgentCard,
        *,
        isolation: Isolation | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        host: tzinfo | None = None,
    ) -> None:
        if card.command is None:
            raise BadInput(f"the card '{card.name}' has no [command]", field="command")
        self._spec: CommandSpec = card.command
        self._check()
        self.isolation = isolation or isolating.find()
        self.isolation.require(card.trust, card.name)
        self._clock = clock
        self._host = host or datetime.now().astimezone().tzinfo or UTC
        self._home = isolating.owner_home(os.environ)
        self._elsewhere: Path | None = None  # the last run's folder, where it could not be the worker's
        self._program, of_program = self._found()
        self._grants = (*(Grant.parse(path, self._home) for path in self._spec.paths), *of_program)

    def run(self, job: Job, progress: Progress, stopped: Callable[[], str | None]) -> Result:
        """What the program says, or why it could not be run or had to end. Nothing that it started runs afterwards."""
        home = job.workspace.resolve()
        try:
            job = replace(job, workspace=self._place(home))
        except OSError as error:
            return Result(outcome=Failed(error=f"the workspace cannot be prepared: {error.strerror}"))
        text = self._prompt(job)
        cell = Cell(
            isolation=self.isolation,
            workspace=job.workspace,
            grants=self._grants,
            masks=isolating.masks(os.environ, Path.cwd()),
        )
        try:
            cell.own_workspace()
            run = cell.start(self._argv(job, text), self._env(job), **_PIPES)
        except Unavailable as error:
            return Result(outcome=Failed(error=error.message, retry=False))
        except OSError as error:
            return Result(outcome=Failed(error=f"the workspace cannot be prepared: {error.strerror}"))
        why: str | None = None
        out = err = None
        try:
            out = self._listen(run.process.stdout, progress, "out")
            err = self._listen(run.process.stderr, progress, "err")
            _feed(run, text if self._spec.prompt == "stdin" else "")
            while run.process.poll() is None and why is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    run.process.wait(_TICK)
                why = stopped()
        finally:
            ended_itself = run.process.poll() is not None
            code = run.end()
            for stream in (out, err):
                if stream is not None:
                    stream.finish(_LAST)
        if why is not None and not ended_itself:
            return Result(outcome=Failed(error=f"it was ended: {why}"))
        return self._brought(self._judged(job, code, out, err), home)

    def close(self) -> None:
        """No folder of a run is left."""
        if self._elsewhere is not None:
            shutil.rmtree(self._elsewhere, ignore_errors=True)
            self._elsewhere = None

    # ---------------------------------------------------------------- how it starts

    def _place(self, workspace: Path) -> Path:
        """Where the program works. Another account cannot pass through the owner's folders, and without a namespace
        the workspace cannot be shown to it elsewhere: then it is a folder that everybody may pass to."""
        self.close()
        if self.isolation.uid is None or self.isolation.namespaces:
            return workspace
        self._elsewhere = Path(tempfile.mkdtemp(prefix="fabric-run-", dir="/var/tmp")).resolve()
        shutil.copytree(workspace, self._elsewhere, symlinks=True, dirs_exist_ok=True)
        self._elsewhere.chmod(0o700)  # as the copy has the workspace's mode
        return self._elsewhere

    def _check(self) -> None:
        if not self._spec.argv or not self._spec.argv[0]:
            raise BadInput("argv is empty", field="argv")
        if self._spec.prompt == "argument" and not any("{prompt}" in word for word in self._spec.argv):
            raise BadInput("the prompt is passed as an argument, and argv has no {prompt}", field="argv")
        for name in self._spec.env:
            if name.startswith(_OWN):
                raise BadInput(f"'{name}' cannot be granted to a program", next="remove it from env", field="env")

    def _found(self) -> tuple[str, tuple[Grant, ...]]:
        """The program, and what a run must see of the owner's home to start it. Raises BadInput when it is not here."""
        name = self._spec.argv[0]
        search = os.pathsep.join((os.environ.get("PATH", ""), str(self._home / ".local" / "bin"), _PATH))
        found = shutil.which(name, path=search)
        if found is None:
            raise BadInput(
                f"the program '{name}' is not here", next="install it, or write its path into argv", field="argv"
            )
        # Only as far as it lies at home: elsewhere a link may be what tells the program which of several it is.
        real = Path(found).resolve()
        if not real.is_relative_to(self._home) or self._home == Path("/"):
            return found, ()
        return str(real), (Grant(path=real if real.parent == self._home else real.parent),)

    def _prompt(self, job: Job) -> str:
        persona = prompt.cut(job.persona.strip(), _BUDGET // 4, "the persona")
        told = [prompt.RULES]
        if any("{result}" in word for word in self._spec.argv) or self._spec.shape != "text":
            told.append(
                'If you cannot finish without an answer from a human, write {"outcome": "needs-input", '
                f'"note": "your question"}} to {job.workspace / result_file.NAME} and stop.'
            )
        head = "\n\n".join(part for part in (persona, *told) if part)
        most = _ARGUMENT // 4 if self._spec.prompt == "argument" else _BUDGET
        return f"{head}\n\n{prompt.compose(job, budget=max(1000, most - len(head)))}".replace("\0", "\ufffd")

    def _argv(self, job: Job, text: str) -> list[str]:
        """Only these three words are replaced, each once: a prompt that contains one of them stays as it is."""
        values = {
            "{prompt}": text,
            "{workspace}": str(job.workspace),
            "{result}": str(job.workspace / result_file.NAME),
        }
        return [self._program, *(_filled(word, values) for word in self._spec.argv[1:])]

    def _env(self, job: Job) -> dict[str, str]:
        workspace = job.workspace
        masked = self.isolation.namespaces
        env = {
            "PATH": _PATH,
            # The owner's home, masked: programs look for what they were granted of it there.
            "HOME": str(self._home if masked and self._home.is_dir() else workspace),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "TMPDIR": "/tmp" if masked else str(workspace),
            "FABRIC_RESULT": str(workspace / result_file.NAME),
            "FABRIC_WORKSPACE": str(workspace),
            "FABRIC_TASK": str(job.fence),
        }
        if job.url and job.run_token:
            env |= {"FABRIC_URL": job.url, "FABRIC_TOKEN": job.run_token}
        return env | {name: os.environ[name] for name in self._spec.env if name in os.environ}

    def _listen(self, pipe: IO[bytes] | None, progress: Progress, stream: str) -> Output:
        if pipe is None:
            raise Unavailable("the program has no output to read")
        shape = self._spec.shape if stream == "out" else "text"
        return Output(
            pipe, progress, stream=stream, cap=self._spec.output_cap, show=lambda line: shapes.spoken(shape, line)
        )

    # ---------------------------------------------------------------- how it ended

    def _judged(self, job: Job, code: int, out: Output, err: Output) -> Result:
        said = shapes.read(self._spec.shape, out.text)
        failed = code != 0 or bool(said.error)
        limit = self._limit(said, out, err, failed=failed)
        told, wrong = None, ""
        try:
            told = result_file.read(job.workspace, said=said.answer)
        except BadInput as error:
            wrong = error.message
        if failed and limit is not None and limit.cls in _MET:
            until = limit.reopens or self._clock() + _REST
            return Result(
                outcome=Parked(until=until, reason=f"its provider: {limit.evidence}"), limit=limit, usage=said.usage
            )
        if told is not None:
            return Result(outcome=told.outcome, attachments=told.attachments, limit=limit, usage=said.usage)
        if wrong:
            outcome: Outcome = Failed(error=wrong)
        else:
            outcome = self._by_code(job, code, said, err)
        return Result(outcome=outcome, limit=limit, usage=said.usage)

    def _brought(self, result: Result, home: Path) -> Result:
        """With its attachments in the worker's own workspace, wherever the program worked."""
        if self._elsewhere is None:
            return result
        brought = []
        for place, path in enumerate(result.attachments):
            target = home / f"attached-{place}" / path.name
            target.parent.mkdir(mode=0o700, exist_ok=True)
            shutil.copyfile(path, target, follow_symlinks=False)
            brought.append(target)
        self.close()
        return replace(result, attachments=tuple(brought))

    def _by_code(self, job: Job, code: int, said: shapes.Said, err: Output) -> Outcome:
        last = _last_words(err.end) or said.error or _last_words(said.answer) or said.garbage
        match code:
            case 0 if said.error:
                return _failed("the program says that it failed", said.error, job)
            case 0 if said.garbage:
                return _failed(f"its output is not {self._spec.shape}", said.garbage, job)
            case 0 if not said.answer:
                return Failed(error="the program ended well but said nothing")
            case 0:
                return Done(note=said.answer)
            case 7:
                return Waiting(question=said.answer or last or "How shall I go on?")
            case 75:
                return Parked(until=self._clock() + _REST, reason=last or "the program asks for another time")
            case 77:
                return Declined(reason=last or "the program refuses the task")
            case _:
                return (
                    _failed(f"exit code {code}", last, job)
                    if last
                    else Failed(error=f"exit code {code} without a word")
                )

    def _limit(self, said: shapes.Said, out: Output, err: Output, *, failed: bool) -> Limit | None:
        """The clearest of what it says: its structured error, its error channel, then the end of a failed output."""
        now = self._clock()
        signals = [limits.Signal(provider=self._spec.provider, headers=said.headers, status=429 if failed else 200)]
        for channel, text in (
            (limits.Channel.STDOUT, said.error),
            (limits.Channel.STDERR, err.end),
            (limits.Channel.STDOUT, _plain(out.end) if self._spec.shape != "text" else out.end),
        ):
            signals.append(limits.Signal(provider=self._spec.provider, channel=channel, text=text, failed=failed))
        if not said.headers:
            signals.pop(0)
        for signal in signals:
            limit = limits.classify(signal, now=now, host=self._host)
            if limit.evidence and limit.cls is not LimitClass.UNKNOWN:
                # It got by all the same: a result is never given up for what the program met on its way.
                return limit if failed or limit.cls not in _MET else replace(limit, cls=LimitClass.WARNING)
        return None


def _failed(what: str, said: str, job: Job) -> Failed:
    """A failure with the program's own kind of it; other words of its may hold anything, and are in the log."""
    kind = said.strip()
    return Failed(error=f"{what}: {kind}" if _KIND.fullmatch(kind) else incident(what, job.fence, said=said))


def _filled(word: str, values: dict[str, str]) -> str:
    """The word with its place-holders replaced in one pass."""
    for name, value in values.items():
        before, found, after = word.partition(name)
        if found:
            return _filled(before, values) + value + _filled(after, values)
    return word


def _feed(run: Run, text: str) -> None:
    """Write the prompt to its standard input and close that; a program that does not listen is no error."""

    def write() -> None:
        with contextlib.suppress(OSError, ValueError):
            if run.process.stdin is not None:
                with run.process.stdin as pipe:
                    pipe.write(text.encode("utf-8", "replace"))

    threading.Thread(target=write, name="prompt", daemon=True).start()


def _plain(text: str) -> str:
    """The lines that are no structured message: what those mention is somebody else's word."""
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith(("{", "[")))


def _last_words(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:_EVIDENCE] if lines else ""

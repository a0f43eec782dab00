"""The launcher of a confined run: started by path as a bare script, it shuts itself in and becomes the program.

It reads its plan from a file descriptor and writes to another one why it could not; nothing written there means that
the program runs. In order: namespaces, masks, grants, then the privileges go, for good. It needs the standard library
only, because it runs without ours.

    outer    waits, and hands on the exit code        (dies with the worker)
      init   number 1 of its own process namespace    (when it ends, so does everything that was started inside)
        the program
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from typing import Any, Final, NoReturn

_NEWNS: Final = 0x00020000
_NEWIPC: Final = 0x08000000
_NEWUSER: Final = 0x10000000
_NEWPID: Final = 0x20000000
_RDONLY, _NOSUID, _NODEV, _NOEXEC, _REMOUNT = 1, 2, 4, 8, 32
_NOATIME, _NODIRATIME, _BIND, _REC, _PRIVATE, _RELATIME = 1024, 2048, 4096, 16384, 1 << 18, 1 << 21
_ST_RELATIME: Final = 4096  # as statvfs says it
_PDEATHSIG, _NO_NEW_PRIVS, _DUMPABLE = 1, 38, 4
_CANNOT: Final = 125  # exit code when the jail could not be built

_libc: Final = ctypes.CDLL(None, use_errno=True)


def main() -> NoReturn:
    """Becomes the program, or says why not and exits."""
    os.set_inheritable(int(sys.argv[2]), False)  # its end, when the program takes over, is the good news
    why = os.fdopen(int(sys.argv[2]), "w")
    try:
        with os.fdopen(int(sys.argv[1])) as source:
            plan: dict[str, Any] = json.load(source)
        _checked("prctl", _libc.prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
        if os.getppid() != plan["parent"]:
            os._exit(_CANNOT)  # the worker died before we asked to die with it
        if not plan["namespaces"]:
            _become(plan)
            _program(plan, why)
        _enter(plan)
        child = os.fork()
        if child:
            why.close()
            _wait_as_outer(child)
        _checked("prctl", _libc.prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
        _furnish(plan)
        _become(plan)
        program = os.fork()
        if program == 0:
            _program(plan, why)
        why.close()
        _wait_as_init(program)
    except (OSError, ValueError, KeyError) as error:
        why.write(f"{error}")
        why.flush()
        os._exit(_CANNOT)


def _enter(plan: dict[str, Any]) -> None:
    uid, gid = os.geteuid(), os.getegid()
    flags = _NEWNS | _NEWPID | _NEWIPC | (0 if plan["uid"] is not None else _NEWUSER)
    _checked("unshare", _libc.unshare(flags))
    if flags & _NEWUSER:
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{uid} {uid} 1")
        _write("/proc/self/gid_map", f"{gid} {gid} 1")
    _mount("none", "/", None, _REC | _PRIVATE)


def _furnish(plan: dict[str, Any]) -> None:
    """Hide the masked places, and put the granted ones back."""
    # O_PATH, so that masked places can still be reached from here when they are granted.
    grants = [(os.open(path, os.O_PATH | os.O_CLOEXEC), path, write) for path, write in plan["grants"]]
    uid = plan["uid"] if plan["uid"] is not None else os.geteuid()
    gid = plan["gid"] if plan["gid"] is not None else os.getegid()
    for path in plan["masks"]:
        if os.path.isdir(path):  # noqa: PTH112 - a bare script: no more imports than it needs
            mode = "1777" if path in {"/tmp", "/var/tmp", "/dev/shm"} else "0700"
            _mount("tmpfs", path, "tmpfs", _NOSUID | _NODEV, f"mode={mode},uid={uid},gid={gid}")
        elif os.path.exists(path):  # noqa: PTH110
            _mount("/dev/null", path, None, _BIND)
    for handle, path, write in grants:
        source = f"/proc/self/fd/{handle}"
        if os.path.isdir(source):  # noqa: PTH112
            _folders(path, uid, gid)
        elif not os.path.exists(path):  # noqa: PTH110
            _folders(os.path.dirname(path), uid, gid)  # noqa: PTH120
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        _mount(source, path, None, _BIND | _REC)
        if not write:
            _mount("none", path, None, _REMOUNT | _BIND | _RDONLY | _locked(path))
        os.close(handle)
    # Without it the run would see the machine's processes; some containers do not allow it, and then it may not
    # touch them all the same: they are in other namespaces.
    _libc.mount(b"proc", b"/proc", b"proc", _NOSUID | _NODEV | _NOEXEC, None)


def _folders(path: str, uid: int, gid: int) -> None:
    """Make the folder and those above it that a mask has hidden."""
    if os.path.isdir(path):  # noqa: PTH112
        return
    _folders(os.path.dirname(path), uid, gid)  # noqa: PTH120
    os.mkdir(path, 0o755)  # noqa: PTH102
    os.chown(path, uid, gid)


def _become(plan: dict[str, Any]) -> None:
    if plan["uid"] is not None:
        os.setgroups([])
        os.setresgid(plan["gid"], plan["gid"], plan["gid"])
        os.setresuid(plan["uid"], plan["uid"], plan["uid"])
    _checked("prctl", _libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0))
    # Changing the account clears it.
    _checked("prctl", _libc.prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0))


def _program(plan: dict[str, Any], why: Any) -> NoReturn:
    try:
        os.umask(0o077)
        os.chdir(plan["workspace"])
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.execvpe(plan["argv"][0], plan["argv"], plan["env"])
    except OSError as error:
        why.write(f"{plan['argv'][0]}: {error.strerror}")
        why.flush()
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


def _wait_as_outer(child: int) -> NoReturn:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # the program gets them as well, and decides
    _, status = os.waitpid(child, 0)
    os._exit(_code(status))


def _wait_as_init(program: int) -> NoReturn:
    """Take leave of every process that ends inside, until the program does."""
    os.closerange(0, 3)  # a pipe must end when its last writer does
    while True:
        ended, status = os.wait()
        if ended == program:
            os._exit(_code(status))


def _code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _locked(path: str) -> int:
    """The flags of the mount, which a remount inside a user namespace must keep."""
    found = os.statvfs(path).f_flag
    return found & (_NOSUID | _NODEV | _NOEXEC | _NOATIME | _NODIRATIME) | (_RELATIME if found & _ST_RELATIME else 0)


def _mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    _checked(
        f"mount {target}",
        _libc.mount(
            source.encode(),
            os.fsencode(target),
            kind.encode() if kind else None,
            ctypes.c_ulong(flags),
            options.encode() if options else None,
        ),
    )


def _checked(what: str, result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:  # noqa: PTH123
        file.write(text)


if __name__ == "__main__":
    main()

"""Making a data directory, and refusing one that belongs to another PostgreSQL."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from taskfabric.db.account import Account
from taskfabric.db.binaries import Binaries
from taskfabric.db.furnish import SUPERUSER
from taskfabric.db.startup_error import explain
from taskfabric.domain.errors import Unavailable

_BUILTIN_LOCALES_SINCE: Final = 17


def data_version(data: Path) -> str | None:
    """The major version that a data directory belongs to; None when there is no such directory."""
    try:
        return (data / "PG_VERSION").read_text().strip()
    except OSError:
        return None


def refuse_other_version(data: Path, binaries: Binaries) -> None:
    """Raise Unavailable if the directory was made by another major version than these programs."""
    made_by = data_version(data)
    if made_by is None or made_by == str(binaries.major):
        return
    raise Unavailable(
        f"the database in {data} was made by PostgreSQL {made_by}, and the programs in {binaries.bin} are "
        f"PostgreSQL {binaries.version}; a data directory cannot change its major version in place",
        next=f"with PostgreSQL {made_by} installed (FABRIC_PG_BIN names its folder): `fabric db backup FILE`, then "
        f"`fabric db stop` and move {data.parent} away; then with PostgreSQL {binaries.major}: "
        "`fabric db start` and `fabric db restore FILE`",
        data=str(data),
        data_version=made_by,
        programs_version=binaries.version,
    )


def make_data(data: Path, *, account: Account, binaries: Binaries, password_file: Path, durable: bool) -> None:
    """Make the data directory unless it is there. It appears complete or not at all."""
    if (data / "PG_VERSION").exists():
        return
    draft = data.with_name("data.new")
    shutil.rmtree(draft, ignore_errors=True)
    account.folder(draft)
    said = ""
    how = [f"--username={SUPERUSER}", f"--pwfile={password_file}", "--auth=scram-sha-256", "--encoding=UTF8"]
    how += ["--data-checksums"] if durable else ["--no-sync"]
    for locale in _locales(binaries):
        code, said = account.run([binaries.program("initdb"), "-D", draft, *how, *locale], timeout=300)
        if code == 0:
            draft.rename(data)
            return
        shutil.rmtree(draft, ignore_errors=True)
        if "invalid locale" not in said:
            break
        account.folder(draft)
    shutil.rmtree(draft, ignore_errors=True)
    raise explain(said, log_folder=None, place=data.parent)


def _locales(binaries: Binaries) -> list[list[str]]:
    """Ways to say "Unicode letters, byte order", best first.

    The builtin provider sorts alike on every system; LC_CTYPE still decides what pg_trgm takes for a letter.
    """
    if binaries.major >= _BUILTIN_LOCALES_SINCE:
        builtin = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        return [[*builtin, "--locale=C", "--lc-ctype=C.UTF-8"], [*builtin, "--locale=C"]]
    return [["--locale=C.UTF-8"], ["--locale=C"]]

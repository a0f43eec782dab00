"""The embedded server's configuration files, made anew at each start: an upgrade of the product reaches them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

# Sized for a small machine that does other things as well.
_DEFAULTS: Final[Mapping[str, str]] = {
    "max_connections": "100",
    "shared_buffers": "128MB",
    "maintenance_work_mem": "64MB",
    "max_wal_size": "1GB",
    "checkpoint_timeout": "15min",
    "synchronous_commit": "on",
    "random_page_cost": "1.1",
    "jit": "off",
    # Queue tables turn over completely many times a day.
    "autovacuum_naptime": "15s",
    # Two verbs that wait for each other must not cost a caller the default second.
    "deadlock_timeout": "200ms",
    "idle_in_transaction_session_timeout": "10min",
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
    "timezone": "UTC",
    "password_encryption": "scram-sha-256",
    "logging_collector": "on",
    # One file a weekday, reused after a week.
    "log_filename": "postgresql-%a.log",
    "log_rotation_age": "1d",
    "log_rotation_size": "0",
    "log_truncate_on_rotation": "on",
    "log_line_prefix": "%m [%p] %a ",
    "log_timezone": "UTC",
    "log_min_duration_statement": "2s",
    # Passwords are set as verifiers; titles and notes of tasks still do not belong into a log.
    "log_parameter_max_length": "0",
    "log_parameter_max_length_on_error": "0",
}

LOCAL: Final = "# Your own settings, such as: work_mem = '16MB'. They overrule those of postgresql.conf.\n"

HBA: Final = """\
# Made at each start; changes here are lost.
local  all  all                scram-sha-256
host   all  all  127.0.0.1/32  scram-sha-256
"""


def server_config(
    *,
    data: Path,
    hba: Path,
    log: Path,
    socket_folder: Path,
    port: int,
    tcp: bool,
    options: Mapping[str, str],
) -> str:
    """The text of postgresql.conf. ``options`` overrule the defaults; ``local.conf`` beside it overrules both."""
    fixed = {
        "data_directory": str(data),
        "hba_file": str(hba),
        "ident_file": str(data / "pg_ident.conf"),
        "log_directory": str(log),
        "unix_socket_directories": str(socket_folder),
        "unix_socket_permissions": "0700",
        "listen_addresses": "127.0.0.1" if tcp else "",
        "port": str(port),
    }
    settings = (f"{name} = {_quoted(value)}" for name, value in {**_DEFAULTS, **options, **fixed}.items())
    head = "# Made at each start; put your own settings into local.conf beside this file."
    return "\n".join([head, *settings, "include = 'local.conf'", ""])


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"

"""Which combinations of settings cannot work."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Final
from urllib.parse import urlsplit

from taskfabric.settings.shape import Auth, Server, Settings


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _contradictions_of_foreigners(server: Server, auth: Auth) -> Iterator[tuple[bool, str]]:
    """What would let in whom nobody has checked, or nobody at all."""
    jwt, mtls, header = auth.jwt, auth.mtls, re.compile(r"[A-Za-z][A-Za-z0-9-]{1,63}")
    yield (
        not auth.api_key_header
        or (header.fullmatch(auth.api_key_header) is not None and auth.api_key_header.lower() != "authorization"),
        'auth.api_key_header must be the name of a header such as "X-API-Key", or ""',
    )
    yield (not jwt.keys or bool(jwt.issuer), "auth.jwt.keys needs auth.jwt.issuer, whose tokens they prove")
    yield (
        not jwt.issuer or _is_guarded_url(jwt.issuer),
        "auth.jwt.issuer must be an https:// address (http:// only on this machine)",
    )
    yield (
        "://" not in jwt.keys or _is_guarded_url(jwt.keys),
        "auth.jwt.keys must be a file or an https:// address (http:// only on this machine)",
    )
    yield (
        not jwt.issuer or bool(server.public_url),
        "server.public_url must be set with auth.jwt: a token counts for the agent's address below it",
    )
    yield (
        bool(jwt.algorithms) and set(jwt.algorithms) <= _ALGORITHMS,
        f"auth.jwt.algorithms must be some of {', '.join(sorted(_ALGORITHMS))}",
    )
    yield (jwt.leeway <= timedelta(minutes=5), "auth.jwt.leeway must be at most 5m")
    yield (
        not mtls.header
        or (
            len(mtls.secret) >= 16
            and bool(mtls.peers)
            and header.fullmatch(mtls.header) is not None
            and header.fullmatch(mtls.secret_header) is not None
        ),
        "auth.mtls.header needs auth.mtls.peers and an auth.mtls.secret of 16 characters: else anybody could write it",
    )


_ALGORITHMS: Final = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)


def _is_guarded_url(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(parts.hostname or ""))


def contradictions(settings: Settings) -> Iterator[str]:
    """Each combination that cannot work, as a sentence that begins with the setting to change."""
    server, board, limits, auth = settings.server, settings.board, settings.limits, settings.auth
    rules: tuple[tuple[bool, str], ...] = (
        (server.port <= 65535, "server.port must be at most 65535"),
        (server.threads >= 1, "server.threads must be at least 1"),
        (server.renew_threads >= 1, "server.renew_threads must be at least 1, or load would cost leases"),
        (
            server.allow_remote or _is_loopback(server.host),
            f"server.host {server.host!r} can be reached from other machines, and server.allow_remote is false",
        ),
        (
            not server.public_url or re.fullmatch(r"https?://[^\s?#]*[^\s?#/]", server.public_url) is not None,
            "server.public_url must be an http:// or https:// address without a slash at its end",
        ),
        (
            server.body_limit >= limits.attachment * 4 // 3 + 2**16,
            "server.body_limit must hold limits.attachment in base64 (four thirds of it, and 64KiB)",
        ),
        (board.pool_size > server.renew_threads, "board.pool_size must be larger than server.renew_threads"),
        (
            board.renew_every <= board.lease / 3,
            "board.renew_every must be at most a third of board.lease, or one lost renewal loses the lease",
        ),
        (board.max_attempts >= 1, "board.max_attempts must be at least 1"),
        (sorted(board.take_order) == [0, 1, 2, 3], "board.take_order must hold 0, 1, 2 and 3, each once"),
        (board.max_lease >= board.lease, "board.max_lease must be at least board.lease, which every agent gets"),
        (board.sweep_per_claim >= 1, "board.sweep_per_claim must be at least 1, or expired leases would stay"),
        (board.idle_backoff >= board.poll_interval, "board.idle_backoff must not be shorter than board.poll_interval"),
        (board.notify_per_second >= 1, "board.notify_per_second must be at least 1"),
        (board.retry_backoff.factor >= 1, "board.retry_backoff.factor must be at least 1"),
        (
            board.retry_backoff.max >= board.retry_backoff.base,
            "board.retry_backoff.max must not be shorter than board.retry_backoff.base",
        ),
        (board.score.medium > board.score.small, "board.score.medium must be larger than board.score.small"),
        (
            settings.journal.spending_retention >= timedelta(days=32),
            "journal.spending_retention must be at least 32d, or the use of a month could not be counted",
        ),
        (settings.router.threshold <= 1, "router.threshold must lie between 0 and 1"),
        (limits.title >= 1, "limits.title must be at least 1"),
        (settings.a2a.threads >= 1, "a2a.threads must be at least 1"),
        (
            timedelta(seconds=1) <= settings.a2a.wait_cap <= timedelta(minutes=10),
            "a2a.wait_cap must lie between 1s and 10m",
        ),
        (1 <= settings.a2a.depth <= 100, "a2a.depth must lie between 1 and 100"),
        (settings.a2a.parts >= 1, "a2a.parts must be at least 1"),
        (1 <= settings.push.per_task <= 100, "push.per_task must lie between 1 and 100"),
        (1 <= settings.push.tries <= 100, "push.tries must lie between 1 and 100"),
        (
            timedelta(seconds=1) <= settings.push.timeout <= timedelta(seconds=30),
            "push.timeout must lie between 1s and 30s, or one delivery would overtake another",
        ),
        (auth.failures_before_delay >= 1, "auth.failures_before_delay must be at least 1"),
        (
            re.fullmatch(r"(?:https?://[^\s/@?#]+(?:[/?]\S*)?)?", settings.webhook.url) is not None,
            'webhook.url must be "" or an address that begins with http:// or https://',
        ),
        (
            re.fullmatch(r"([\x21-\x7e]{32,128})?", auth.app_token) is not None,
            'auth.app_token must be "" or 32 to 128 characters without a space',
        ),
        (auth.pin_tries >= 1, "auth.pin_tries must be at least 1"),
        *_contradictions_of_foreigners(server, auth),
        (
            timedelta(seconds=1) <= settings.keeper.every <= board.lease,
            "keeper.every must lie between 1s and board.lease",
        ),
        (
            timedelta(seconds=1) <= settings.keeper.cron_every <= timedelta(minutes=5),
            "keeper.cron_every must lie between 1s and 5m, or slots would come late",
        ),
        (
            not settings.keeper.zabbix or re.fullmatch(r"[^\s:/]+:\d{1,5}", settings.keeper.zabbix) is not None,
            'keeper.zabbix must be written host:port, or be ""',
        ),
    )
    return (sentence for holds, sentence in rules if not holds)

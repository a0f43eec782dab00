"""Settings: one frozen object, complete defaults, later sources win, mistakes are named."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import FrozenInstanceError
from datetime import timedelta
from pathlib import Path

import pytest

from taskfabric import assets, settings
from taskfabric.domain.errors import BadInput
from taskfabric.settings import Settings


def load(
    home: Path, *, env: Mapping[str, str] | None = None, toml: str = "", overrides: Mapping[str, object] | None = None
) -> Settings:
    if toml:
        (home / "config.toml").write_text(toml)
    return settings.load(env=env or {}, home=home, overrides=overrides)


def refusal(home: Path, *, env: Mapping[str, str] | None = None, toml: str = "") -> BadInput:
    with pytest.raises(BadInput) as caught:
        load(home, env=env, toml=toml)
    return caught.value


def test_the_default_file_sets_every_setting_and_nothing_else() -> None:
    def paths(tree: Mapping[str, object], prefix: str = "") -> set[str]:
        found: set[str] = set()
        for key, value in tree.items():
            found |= paths(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key}
        return found

    assert paths(tomllib.loads(assets.read_text("config/default.toml"))) == set(settings.TYPES)


def test_every_setting_in_the_default_file_has_a_comment() -> None:
    bare = [
        line
        for line in assets.read_text("config/default.toml").splitlines()
        if "=" in line and not line.startswith("#") and "#" not in line
    ]
    explained_by_their_section = {"parks = 20", "waits = 20", "releases = 20", 'base = "30s"', "factor = 4.0"}
    assert set(bare) <= explained_by_their_section | {'max = "1h"', "small = 2", "medium = 5"}


def test_the_defaults_need_nothing(tmp_path: Path) -> None:
    found = load(tmp_path)
    assert (found.server.host, found.server.port) == ("127.0.0.1", 8420)
    assert found.board.dsn == ""
    assert found.board.lease == timedelta(minutes=10)
    assert found.board.take_order == (3, 2, 1, 0)
    assert found.limits.attachment == 10 * 2**20


def test_nothing_of_the_settings_can_be_changed_afterwards(tmp_path: Path) -> None:
    found = load(tmp_path)
    with pytest.raises(FrozenInstanceError):
        found.server.port = 1  # type: ignore[misc]


def test_later_sources_win_over_earlier_ones(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(
        "[server]\nport = 1001\nthreads = 2\nrenew_threads = 1\n[auth]\npin_tries = 7\n"
    )
    (tmp_path / "named.toml").write_text("[server]\nport = 1002\nthreads = 3\nrenew_threads = 2\n")
    env = {"FABRIC_CONFIG": str(tmp_path / "named.toml"), "FABRIC_SERVER_PORT": "1003", "FABRIC_SERVER_THREADS": "4"}
    found = load(tmp_path, env=env, overrides={"server.port": 1004})
    assert found.server.port == 1004
    assert found.server.threads == 4
    assert found.server.renew_threads == 2
    assert found.auth.pin_tries == 7


def test_a_file_named_on_the_command_line_is_read_instead_of_the_one_in_the_environment(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("[server]\nport = 1005\n")
    env = {"FABRIC_CONFIG": str(tmp_path / "missing.toml")}
    assert settings.load(env=env, home=tmp_path, config=tmp_path / "mine.toml").server.port == 1005


def test_a_named_file_that_is_missing_is_an_error(tmp_path: Path) -> None:
    assert "cannot be read" in refusal(tmp_path, env={"FABRIC_CONFIG": str(tmp_path / "missing.toml")}).message


@pytest.mark.parametrize(
    ("toml", "hint"),
    [
        ("[server]\nprot = 1\n", "did you mean server.port?"),
        ("[sever]\nport = 1\n", "did you mean server.port?"),
        ("[board.bounds]\npark = 1\n", "did you mean board.bounds.parks?"),
        ('[board]\nleas = "1m"\n', "did you mean board.lease?"),
        ("zzzz = 1\n", "`fabric config show` lists every setting"),
    ],
)
def test_an_unknown_key_in_a_file_is_answered_with_the_nearest_one(tmp_path: Path, toml: str, hint: str) -> None:
    assert refusal(tmp_path, toml=toml).next == hint


@pytest.mark.parametrize("name", ["FABRIC_SERVER_PROT", "FABRIC_SERVR_PORT", "FABRIC_BOARD_LEAS", "FABRIC_BORAD"])
def test_a_misspelt_variable_is_an_error(tmp_path: Path, name: str) -> None:
    assert refusal(tmp_path, env={name: "1"}).next.startswith("did you mean FABRIC_")


@pytest.mark.parametrize("name", ["FABRIC_HOME", "FABRIC_URL", "FABRIC_TOKEN", "FABRIC_LEASES", "FABRIC_VENV", "PATH"])
def test_variables_of_other_programs_are_left_alone(tmp_path: Path, name: str) -> None:
    assert load(tmp_path, env={name: "anything"}) == load(tmp_path)


def test_an_empty_variable_counts_as_not_set(tmp_path: Path) -> None:
    assert load(tmp_path, env={"FABRIC_SERVER_PORT": ""}).server.port == 8420


def test_every_setting_can_be_set_by_a_variable(tmp_path: Path) -> None:
    for path, value in flat(load(tmp_path).show()).items():
        name = "FABRIC_" + path.upper().replace(".", "_")
        text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
        assert load(tmp_path, env={name: text}) == load(tmp_path), name


def flat(tree: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in tree.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return found


def test_the_board_is_named_by_its_short_variables(tmp_path: Path) -> None:
    assert load(tmp_path, env={"FABRIC_BOARD": "postgresql://a/b"}).board.dsn == "postgresql://a/b"
    assert load(tmp_path, env={"DATABASE_URL": "postgres://c/d"}).board.dsn == "postgres://c/d"
    both = {"DATABASE_URL": "postgres://c/d", "FABRIC_BOARD": "postgresql://a/b"}
    assert load(tmp_path, env=both).board.dsn == "postgresql://a/b"


@pytest.mark.parametrize("order", [1, -1])
def test_the_long_name_of_a_variable_wins_over_the_short_one(tmp_path: Path, order: int) -> None:
    names = [("FABRIC_BOARD", "postgresql://short/"), ("FABRIC_BOARD_URL", "postgresql://long/")]
    assert load(tmp_path, env=dict(names[::order])).board.url == "postgresql://long/"


@pytest.mark.parametrize(
    ("toml", "sentence"),
    [
        ("[server]\nport = 70000\n", "server.port must be at most 65535"),
        ("[server]\nport = -1\n", "whole number"),
        ("[server]\nport = true\n", "whole number"),
        ('[server]\nport = "http"\n', "whole number"),
        ("[server]\nhost = 5\n", "must be a string"),
        ('[server]\nallow_remote = "perhaps"\n', "true or false"),
        ('[server]\nbody_limit = "4MB"\n', 'a size such as "500B"'),
        ("[server]\nbody_limit = 4194304\n", "must be a string"),
        ('[server]\npublic_url = "board.example"\n', "http:// or https://"),
        ('[server]\npublic_url = "https://board.example/"\n', "without a slash"),
        ("server = 5\n", "server is a section"),
        ('[board]\nlease = "10"\n', 'a duration such as "200ms"'),
        ('[board]\nlease = "0s"\n', 'a duration such as "200ms"'),
        ('[board]\nlease = "-1m"\n', 'a duration such as "200ms"'),
        ('[board]\nlease = "99999d"\n', 'a duration such as "200ms"'),
        ('[board]\nurl = "mysql://x"\n', "postgresql://"),
        ("[board]\ntake_order = [3, 2, 1]\n", "board.take_order must hold 0, 1, 2 and 3"),
        ("[board]\ntake_order = 3\n", "a list of whole numbers"),
        ("[board]\nmax_attempts = 0\n", "board.max_attempts"),
        ("[board.retry_backoff]\nfactor = 0.5\n", "at least 1"),
        ('[log]\nlevel = "loud"\n', "one of debug, info, warning, error"),
        ("[server\n", "not valid TOML"),
    ],
)
def test_a_value_that_cannot_be_is_refused_with_what_could(tmp_path: Path, toml: str, sentence: str) -> None:
    assert sentence in refusal(tmp_path, toml=toml).message


@pytest.mark.parametrize(
    ("toml", "setting"),
    [
        ('[board]\nrenew_every = "200001ms"\n', "board.renew_every"),
        ('[board]\nlease = "1m"\nrenew_every = "1m"\n', "board.renew_every"),
        ('[server]\nhost = "0.0.0.0"\n', "server.host"),
        ('[server]\nhost = "board.example"\n', "server.host"),
        ('[server]\nbody_limit = "4MiB"\n', "server.body_limit"),
        ("[board]\npool_size = 4\n", "board.pool_size"),
        ('[board]\npoll_interval = "10s"\n', "board.idle_backoff"),
        ("[board.score]\nsmall = 5\n", "board.score.medium"),
        ('[board.retry_backoff]\nmax = "1s"\n', "board.retry_backoff.max"),
    ],
)
def test_a_combination_that_cannot_work_is_refused(tmp_path: Path, toml: str, setting: str) -> None:
    """G8: a heartbeat as long as its time-out is such a combination."""
    assert refusal(tmp_path, toml=toml).facts["setting"] == setting


def test_a_renewal_follows_the_lease_unless_it_is_set(tmp_path: Path) -> None:
    assert load(tmp_path, env={"FABRIC_BOARD_LEASE": "1m"}).board.renew_every == timedelta(seconds=20)
    assert load(tmp_path, env={"FABRIC_BOARD_RENEW_EVERY": "5s"}).board.renew_every == timedelta(seconds=5)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_a_loopback_host_needs_no_permission(tmp_path: Path, host: str) -> None:
    assert load(tmp_path, env={"FABRIC_SERVER_HOST": host}).server.host == host


def test_another_host_needs_an_explicit_permission(tmp_path: Path) -> None:
    env = {"FABRIC_SERVER_HOST": "0.0.0.0", "FABRIC_SERVER_ALLOW_REMOTE": "true"}
    assert load(tmp_path, env=env).server.host == "0.0.0.0"


def test_a_mistake_names_where_it_was_written(tmp_path: Path) -> None:
    assert refusal(tmp_path, toml="[server]\nport = 'x'\n").message.startswith(str(tmp_path / "config.toml"))
    assert refusal(tmp_path / "no", env={"FABRIC_SERVER_PORT": "x"}).message.startswith(
        "FABRIC_SERVER_PORT: server.port"
    )


def test_show_hides_passwords(tmp_path: Path) -> None:
    env = {
        "FABRIC_BOARD": "postgresql://me:hunter2@db/fabric",
        "DATABASE_URL": "postgresql://db/x?password=hunter2&a=b",
    }
    shown = load(tmp_path, env=env).show()["board"]
    assert isinstance(shown, dict)
    assert shown["url"] == "postgresql://me:***@db/fabric"
    assert shown["database"] == "postgresql://db/x?password=***&a=b"


def test_the_app_token_is_never_shown(tmp_path: Path) -> None:
    token = "a-token-of-forty-characters-or-so-hunter2"
    held = load(tmp_path, env={"FABRIC_AUTH_APP_TOKEN": token})
    assert held.auth.app_token == token
    assert "hunter2" not in repr(held.show())
    error = refusal(tmp_path, env={"FABRIC_AUTH_APP_TOKEN": "hunter2"})
    assert "32 to 128 characters" in error.message
    assert "hunter2" not in repr(error.to_json())


def test_a_kanboard_may_be_the_board_and_the_database_is_still_ours(tmp_path: Path) -> None:
    env = {"FABRIC_BOARD": "https://kanboard.example/", "KANBOARD_TOKEN": "hunter2", "DATABASE_URL": "postgresql://a/b"}
    found = load(tmp_path, env=env)
    assert (found.board.kanboard, found.board.dsn) == ("https://kanboard.example/", "postgresql://a/b")
    assert load(tmp_path, env={"FABRIC_BOARD": "http://kb"}).board.dsn == ""
    assert load(tmp_path, env={"FABRIC_BOARD": "postgresql://a/b"}).board.kanboard == ""
    assert "hunter2" not in repr(found.show())


def test_a_refusal_hides_passwords(tmp_path: Path) -> None:
    error = refusal(tmp_path, env={"FABRIC_BOARD": "mysql://me:hunter2@db/fabric"})
    assert "hunter2" not in repr(error.to_json())


def test_show_is_valid_as_a_settings_file(tmp_path: Path) -> None:
    shown = load(tmp_path).show()
    assert settings.load(env={}, home=tmp_path, overrides=flat(shown)) == load(tmp_path)

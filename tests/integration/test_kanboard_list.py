"""Kanboard's API, served: the list of procedures is Kanboard's, with its parameters, defaults and roles."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Final

import pytest

from taskfabric.domain.principal import AppRole, ProjectRole
from taskfabric.settings import load
from taskfabric.surfaces.kanboard_api.arguments import MISSING
from taskfabric.surfaces.kanboard_api.dispatch import Procedure
from taskfabric.surfaces.kanboard_api.roles import Need
from taskfabric.surfaces.kanboard_api.table import procedures
from taskfabric.testing import TestServer
from taskfabric.wiring import build
from tests.integration.kanboard_list import PARAMETERS, ROLES

# They judge for themselves: some find a project first, and the app token's tags may belong to none.
LOOK_FIRST: Final = {
    *("getProjectByName", "getProjectByIdentifier", "getProjectByEmail", "getProjectActivities", "createTag"),
}


@pytest.fixture(scope="module")
def table(server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Procedure]]:
    home = tmp_path_factory.mktemp("home")
    with server.database() as database, closing(build(load(env={}, home=home), database.dsn, home=home)) as house:
        yield procedures(house.hallway)


def test_every_procedure_of_kanboard_is_there_and_no_other(table: Mapping[str, Procedure]) -> None:
    assert set(table) == set(PARAMETERS)


@pytest.mark.parametrize("name", sorted(PARAMETERS))
def test_parameters_have_kanboards_names_order_and_defaults(table: Mapping[str, Procedure], name: str) -> None:
    wanted = [part.strip() for part in PARAMETERS[name].split(", ") if part.strip()]
    assert [_written(param.name, param.default) for param in table[name].params] == [
        _normal(part.removesuffix("[]")) for part in wanted
    ]


@pytest.mark.parametrize("name", sorted(set(ROLES) - LOOK_FIRST))
def test_the_least_role_is_kanboards(table: Mapping[str, Procedure], name: str) -> None:
    assert _role(table[name].need) == ROLES[name]


def _written(name: str, default: object) -> str:
    return name if default is MISSING else _normal(f"{name}={json.dumps(default)}")


def _normal(part: str) -> str:
    return part.replace("'", '"').replace("tags=[]", "tags").replace("tags=null", "tags").rstrip("=")


def _role(need: Need) -> str:
    if need.person:
        return "user only"
    match need.app_role:
        case AppRole.ADMIN:
            return "A-admin"
        case AppRole.MANAGER:
            return "A-mgr"
        case _:
            pass
    match need.project_role:
        case ProjectRole.MANAGER:
            return "P-mgr"
        case ProjectRole.MEMBER:
            return "P-mem"
        case ProjectRole.VIEWER:
            return "P-view"
        case None:
            return "any"

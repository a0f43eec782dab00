"""The file store: the same bytes once, whole or not at all, for nobody else."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from taskfabric.domain.errors import NotFound, Unavailable
from taskfabric.stores.files import FileStore


def test_what_was_put_comes_back(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "files")
    for data in (b"", b"hello", bytes(range(256)) * 1000):
        digest = store.put(data)
        assert digest == hashlib.sha256(data).hexdigest()
        assert store.get(digest) == data


def test_the_same_bytes_are_stored_once(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    assert store.put(b"twice") == store.put(b"twice")
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 1


def test_only_the_owner_may_read(tmp_path: Path) -> None:
    root = tmp_path / "files"
    FileStore(root).put(b"private")
    assert root.stat().st_mode & 0o777 == 0o700
    for path in root.rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o600 if path.is_file() else 0o700)


@pytest.mark.parametrize("name", ["", "0" * 64, "../../etc/passwd", "a" * 63, "A" * 64])
def test_what_is_not_there_is_not_found(tmp_path: Path, name: str) -> None:
    with pytest.raises(NotFound):
        FileStore(tmp_path).get(name)


def test_a_file_that_was_changed_on_disk_is_not_given_out(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    digest = store.put(b"true")
    (tmp_path / digest[:2] / digest[2:4] / digest).write_bytes(b"false")
    with pytest.raises(Unavailable):
        store.get(digest)


def test_a_disk_that_refuses_is_said_so_and_leaves_nothing(tmp_path: Path) -> None:
    blocked = tmp_path / "files"
    blocked.write_text("a file where the folder should be")
    with pytest.raises(Unavailable):
        FileStore(blocked).put(b"data")
    assert blocked.read_text() == "a file where the folder should be"


def test_a_write_that_fails_half_way_leaves_no_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(Unavailable, match="No space left"):
        FileStore(tmp_path).put(b"data")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []

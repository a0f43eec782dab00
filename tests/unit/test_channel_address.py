"""The addresses that a person may name for his letters, and what of them is shown."""

from __future__ import annotations

import pytest

from taskfabric.domain.errors import BadInput
from taskfabric.stores.channel_address import read


@pytest.mark.parametrize(
    ("url", "shown", "place"),
    [
        ("ntfys://ntfy.sh/secret-topic", "ntfys://ntfy.sh/…", "https://ntfy.sh/"),
        ("ntfy://me:secret@host.example:8080/secret?priority=high", "ntfy://host.example/…", "http://host.example:8080/"),
        ("json://host.example/secret?+X-Secret=secret", "json://host.example/…", "http://host.example/"),
        ("matrixs://me:secret@[2001:db8::1]:8448/#room", "matrixs://2001:db8::1/…", "https://[2001:db8::1]:8448/"),
        ("mailtos://me:secret@example.org?smtp=mail.example.org&to=me@example.org", "mailtos://example.org/…",
         "https://mail.example.org/"),
        ("tgram://123456789:secret/12315544/", "tgram://…", ""),
        ("DISCORD://secret/secret", "discord://…", ""),
    ],
)  # fmt: skip
def test_of_an_address_the_service_and_its_host_are_shown_and_nothing_else(url: str, shown: str, place: str) -> None:
    assert read(url) == (shown, place)


@pytest.mark.parametrize(
    "url",
    [
        *("file:///etc/secret", "syslog://secret", "dbus://secret", "gnome://secret", "windows://secret", "macosx://"),
        *("smpp://secret@host.example", "mqtt://host.example/secret", "rsyslog://host.example", "secret", ""),
        "ntfys://host.example/x,syslog://secret",
        "ntfys://host.example/x syslog://secret",
        "ntfys://host.example/x?to=https://127.0.0.1/secret",
        "discord://secret/secret?template=/etc/passwd",
        "discord://secret/secret?Template=/etc/passwd",
        "discord://secret/secret?%74emplate=/etc/passwd",
        "ntfys://host.example/secret#?template=/etc/passwd",
        "ntfys://host.example/secret?format=text?template=/etc/passwd",
        "ntfys://host.example/secret?redirect=yes",
        "ntfys://host.example/secret?verify=no",
        "mailto://me:secret@host.example?pgpkey=/etc/passwd",
        "json://host.example\\@127.0.0.1/secret",
        "ntfys:///secret",
        "ntfys://host.example:port/secret",
        "ntfys://host.example/" + "s" * 2048,
    ],
)
def test_an_address_that_reaches_further_is_refused_without_a_word_of_it(url: str) -> None:
    with pytest.raises(BadInput) as caught:
        read(url)
    assert "secret" not in f"{caught.value.message} {caught.value.next}"
    assert caught.value.next or "2048" in caught.value.message

"""Addresses of lease managers, and what is said when none of them answers."""

from __future__ import annotations

import pytest

from holdfast.adapters.leases.endpoints import Address, advised, parse_address, unanswered
from holdfast.errors import InvalidConfig

EXAMPLE = "nats://nats-1:4222"
ADVICE = (("certificate", "See [leases] ca"), ("tls", "Use tls://"))
WRONG = ["one:4222", "http://one", "nats://", "nats://one:x", "nats://one:99999", "nats://one/a", "nats://one?a=1"]


def parsed(address: str) -> Address:
    return parse_address(address, ("nats", "tls"), 4222, example=EXAMPLE)


def test_an_address_has_a_port_and_brackets_where_they_are_needed() -> None:
    assert parsed("nats://one") == ("nats", "one:4222")
    assert parsed("tls://one:1/") == ("tls", "one:1")
    assert parsed("nats://[::1]:7") == ("nats", "[::1]:7")


@pytest.mark.parametrize("address", WRONG)
def test_what_is_not_an_address_is_refused_with_an_example(address: str) -> None:
    with pytest.raises(InvalidConfig, match=f'is not an address such as "{EXAMPLE}"'):
        parsed(address)


@pytest.mark.parametrize("address", ["nats://me:secret@one", "http://me:secret@one"])
def test_a_password_in_an_address_is_refused_and_never_shown(address: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        parsed(address)
    assert "secret" not in str(caught.value)


def test_the_first_advice_that_fits_is_given() -> None:
    assert advised("TLS: bad Certificate", ADVICE) == "TLS: bad Certificate. See [leases] ca"
    assert advised("refused", ADVICE) == "refused"


def test_servers_that_do_not_answer_are_named_each_with_its_advice() -> None:
    error = unanswered("NATS", 2.0, {"nats://one": "no tls", "nats://two": "refused"}, ADVICE)
    assert str(error) == "NATS does not answer within 2.0 s. nats://one: no tls. Use tls://; nats://two: refused"

"""Addresses: what libpq is told, which schema is meant, and that no password is ever shown."""

from __future__ import annotations

import pytest

from holdfast import App
from holdfast.adapters.postgres.address import parse_address
from holdfast.adapters.postgres.connections import Dialler
from holdfast.config.addresses import without_secrets
from holdfast.errors import HoldfastError, InvalidInput

SECRET = "s3cr3t-w0rd"


def test_an_address_without_options_means_the_schema_holdfast() -> None:
    """Contract: the usual address needs nothing more, and a half-open connection is noticed within TTL/2."""
    address = parse_address("postgresql://ann@db.example/shop")
    assert (address.schema, address.quoted, address.has_notices) == ("holdfast", '"holdfast"', True)
    told = address.connecting
    assert (told["host"], told["user"], told["dbname"]) == ("db.example", "ann", "shop")
    idle = told["keepalives_idle"] + told["keepalives_interval"] * told["keepalives_count"]
    assert idle <= 7.5
    assert told["tcp_user_timeout"] <= 7500


def test_our_options_are_not_libpqs() -> None:
    """Contract: `schema` and `notices` are taken out, everything else is passed on."""
    address = parse_address("postgres://ann@db/shop?schema=my%20%22runs%22&notices=off&connect_timeout=3")
    assert (address.schema, address.quoted, address.has_notices) == ('my "runs"', '"my ""runs"""', False)
    assert address.connecting["connect_timeout"] == "3"
    assert "schema" not in address.connecting


def test_a_plus_is_a_plus() -> None:
    """Contract: options are read as libpq reads them; what is shown of an address means the same place."""
    text = f"postgresql://db/shop?user=a+b&options=-c%20x.y%3D1+1&schema=c+d&password={SECRET}+%2B%20"
    for address in (parse_address(text), parse_address(parse_address(text).url)):
        assert (address.schema, address.connecting["user"]) == ("c+d", "a+b")
        assert address.connecting["options"] == "-c x.y=1+1"
    assert parse_address(text).connecting["password"] == f"{SECRET}++ "


def test_of_several_hosts_the_one_that_can_be_written_is_chosen() -> None:
    """Contract: failover needs no more than the names of all servers."""
    assert parse_address("postgresql://a,b:5433/shop").connecting["target_session_attrs"] == "read-write"
    assert "target_session_attrs" not in parse_address("postgresql://a/shop").connecting


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("postgresql://a,b:5433/shop", [("a", ""), ("b", "5433")]),
        ("postgresql:///shop?host=a,/tmp,c&port=5433", [("a", "5433"), ("/tmp", "5433"), ("c", "5433")]),
        ("postgresql://a:5433/shop", [("a", "5433")]),
    ],
)
def test_each_of_several_hosts_has_its_port(text: str, places: list[tuple[str, str]]) -> None:
    """Contract: as libpq pairs them."""
    servers = parse_address(text).servers
    assert [(server["host"], server["port"]) for server in servers] == places
    assert {server["dbname"] for server in servers} == {"shop"}


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://u@h/d?schema=",
        "postgresql://u@h/d?schema=pg_mine",
        f"postgresql://u@h/d?schema={'x' * 64}",
        "postgresql://u@h/d?notices=maybe",
        "postgresql://u@h/d?colour=red",
        "postgresql://u@a,b,c/d?port=1,2",
        "mysql://u@h/d",
    ],
)
def test_what_cannot_be_an_address_is_refused(text: str) -> None:
    """Contract: before anything is dialled, with the value that is wrong."""
    with pytest.raises(InvalidInput):
        parse_address(text)


@pytest.mark.parametrize("place", ["postgresql://ann:{}@127.0.0.1:1/d", "postgresql://ann@127.0.0.1:1/d?password={}"])
def test_a_password_is_never_shown(place: str) -> None:
    """Contract: not in the url, nor a repr, nor an error."""
    text = place.format(SECRET)
    address = parse_address(text)
    assert address.connecting["password"] == SECRET
    shown = [address.url, repr(address), repr(App(text)), without_secrets(text)]
    with pytest.raises(HoldfastError) as refused:
        Dialler(address).dial(patience=1)
    shown += [str(refused.value), repr(refused.value), repr(refused.value.__cause__)]
    with pytest.raises(InvalidInput) as wrong:
        parse_address(text + ("&" if "?" in text else "?") + "colour=red")
    shown.append(str(wrong.value))
    assert not [each for each in shown if SECRET in each]
    assert "ann@127.0.0.1:1/d" in address.url


def test_a_server_that_is_away_is_tried_twice_a_second_at_most() -> None:
    """Contract: after a failed attempt nobody of this process tries again within half a second."""
    dialler = Dialler(parse_address("postgresql://ann@127.0.0.1:1/d"))
    for _ in range(20):
        with pytest.raises(HoldfastError):
            dialler.dial(patience=0)
    assert dialler.attempts == 1
    with pytest.raises(HoldfastError):
        dialler.dial(patience=1)
    assert dialler.attempts == 2

"""The keys as a table, made from the settings: names, variables, types; parses one value at a time. Pure."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, cast

import msgspec

from holdfast.config.settings import Configuration
from holdfast.core.durations import format_duration, parse_duration
from holdfast.core.instants import LONGEST_KEPT, LONGEST_WAIT
from holdfast.errors import InvalidConfig, InvalidDuration

PREFIX = "HOLDFAST_"
URL_VARIABLE = "HOLDFAST_URL"
FOREVER = "forever"

_KUBERNETES = re.compile(r"_(SERVICE|PORT)(_|$)")
"""Variables that a cluster sets for a service called like us."""

_WORDS: tuple[tuple[str, str], ...] = (("bool", "true or false"), ("int", "a whole number"), ("str", "a text"))


class Key(msgspec.Struct, frozen=True):
    """One key: `[worker] concurrency` is named `worker.concurrency`."""

    name: str
    type: Any
    default: Any

    @property
    def variable(self) -> str:
        """Its name in the environment."""
        return URL_VARIABLE if self.name == "store.url" else PREFIX + self.name.upper().replace(".", "_")

    @property
    def label(self) -> str:
        """Its name in messages."""
        section, dot, rest = self.name.rpartition(".")
        return f"[{section}] {rest}" if dot else rest

    @property
    def is_list(self) -> bool:
        """Whether it takes several texts."""
        return bool(self.type == tuple[str, ...])

    @property
    def is_duration(self) -> bool:
        """Whether it takes a duration; one that may be None also takes "forever"."""
        return bool(self.type in {timedelta, timedelta | None})


@functools.cache
def keys() -> Mapping[str, Key]:
    """Every key, in the order of the settings."""
    found: dict[str, Key] = {}
    for field in msgspec.structs.fields(Configuration):
        kind: Any = field.type
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            for inner in msgspec.structs.fields(kind):
                name = f"{field.name}.{inner.name}"
                found[name] = Key(name, inner.type, inner.default)
        else:
            found[field.name] = Key(field.name, kind, field.default)
    return found


def typed(key: Key, raw: Any, origin: str) -> Any:
    """The value of a key. Raises `InvalidConfig`, which says where the wrong value is."""
    if key.is_list and isinstance(raw, str):
        raise InvalidConfig(f"{origin}: {key.label} is a list of texts: write [{quoted(raw)}]")
    try:
        if key.is_duration:
            if raw == FOREVER and key.type is not timedelta:
                return None
            most = LONGEST_WAIT if key.type is timedelta else LONGEST_KEPT
            return parse_duration(raw, what=key.label, most=most)
        return msgspec.convert(raw, key.type)
    except InvalidDuration as error:
        raise InvalidConfig(f"{origin}: {error}") from None
    except msgspec.ValidationError as error:
        raise InvalidConfig(f"{origin}: {key.label} = {quoted(raw)}: {_words(str(error))}") from None


def from_text(key: Key, text: str, origin: str) -> Any:
    """The value of a key from a variable: lists are separated by commas."""
    if key.is_list:
        return tuple(part for word in text.split(",") if (part := word.strip()))
    if key.is_duration or key.type is str:
        return typed(key, text, origin)
    try:
        return msgspec.convert(text, key.type, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidConfig(f"{origin} = {quoted(text)}: {_words(str(error))}") from None


def flattened(table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The keys of a file as `section.key`. An unknown one is refused, with the nearest known one."""
    sections = {name.partition(".")[0] for name in keys() if "." in name}
    found: dict[str, Any] = {}
    for name, value in table.items():
        if name in sections:
            if not isinstance(value, Mapping):
                raise InvalidConfig(f"{where}: {name} is a section: write [{name}] and its keys below")
            inner = cast("Mapping[str, Any]", value)
            found |= {_known(f"{name}.{key}", where): item for key, item in inner.items()}
        else:
            found[_known(name, where)] = value
    return found


def refuse_unknown_variables(names: Mapping[str, str]) -> None:
    """Refuses a variable that looks like a misspelt variable of Holdfast; others are ignored."""
    ours = {key.variable for key in keys().values()}
    for name in names:
        if not name.startswith(PREFIX) or name in ours or _KUBERNETES.search(name):
            continue
        if name == "HOLDFAST_STORE_URL":
            raise InvalidConfig(f"${name} is not read: the address of the store is ${URL_VARIABLE}")
        near = _nearest(name, ours, cutoff=0.9)
        if near:
            raise InvalidConfig(f"unknown variable ${name}. Did you mean ${near[0]}?")


def shown(value: Any) -> str:
    """A value as it would appear in a file."""
    if isinstance(value, timedelta):
        return quoted(_short(value))
    if value is None:
        return quoted(FOREVER)
    return quoted(value)


def quoted(value: Any) -> str:
    """A value as TOML writes it (its texts and lists are JSON's)."""
    return msgspec.json.encode(value, enc_hook=str).decode()


def _short(value: timedelta) -> str:
    """A duration that parses again."""
    return format_duration(value).replace(" ", "").replace("min", "m") if value else "0s"


def _nearest(name: str, names: Iterable[str], cutoff: float = 0.6) -> list[str]:
    """The most similar name, if there is one."""
    import difflib  # not light, and only needed when something is wrong

    return difflib.get_close_matches(name, list(names), n=1, cutoff=cutoff)


def _known(name: str, where: str) -> str:
    if name in keys():
        return name
    section, dot, last = name.rpartition(".")
    beside = [one.removeprefix(section + dot) for one in keys() if one.rpartition(".")[0] == section]
    elsewhere = [key.label for key in keys().values() if key.name.rpartition(".")[2] == last]
    near = _nearest(last, beside)
    if not near and not dot:
        near = [f"[{one}]" for one in _nearest(name, {n.partition(".")[0] for n in keys()})]
    hint = f" Did you mean {' or '.join(elsewhere or near)}?" if near or elsewhere else ""
    label = f"{last} in [{section}]" if dot else last
    raise InvalidConfig(f"{where}: unknown key {label}.{hint or ' Known are: ' + ', '.join(beside) + '.'}")


def _words(problem: str) -> str:
    """msgspec's message in words for people who do not know its types."""
    text = problem.partition(" - at `$")[0]
    for type_name, words in _WORDS:
        text = text.replace(f"`{type_name}`", words)
    return text[:1].lower() + text[1:]

"""Ids and names: what is valid, and how Holdfast derives its own.

One rule for ids of runs and for names of workflows, steps, signals, topics, queues and keys, the same in Python, HTTP
and YAML: 1 to 255 bytes of UTF-8 that a person can see and a log line can hold. Text is kept exactly: no case folding,
no Unicode normalisation, no escaping. Derived ids depend on their arguments alone.
"""

from __future__ import annotations

import hashlib
import re

from holdfast.errors import InvalidId, InvalidInput

__all__ = ["MAX_BYTES", "check_id", "check_name", "check_text", "child_id", "idempotency_key"]

MAX_BYTES = 255

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_DIGEST = 32


def check_id(value: object, what: str = "run id") -> str:
    """Returns `value` as a plain str if it is a valid id. Raises `InvalidId`, which says what is wrong."""
    if not isinstance(value, str):
        raise InvalidId(f"{what}: an id is a str, not {type(value).__name__}.")
    text = str.__str__(value)  # a str enum or another subclass becomes plain text
    if text.isascii() and text.isprintable() and 0 < len(text) <= MAX_BYTES and text[0] != " " and text[-1] != " ":
        return text
    if problem := _problem(text):
        raise InvalidId(f"{what}: {_shown(text)} {problem}")
    return text


def check_name(value: object, what: str = "name") -> str:
    """The same rule for the name of a workflow, step, signal, topic, queue or key."""
    return check_id(value, what)


def check_text(value: object, what: str, *, most: int = 0) -> str:
    """Returns `value` as a plain str if every store can keep it. Raises `InvalidInput` otherwise. Empty is fine;
    `most`: maximum bytes, 0 for any number."""
    if not isinstance(value, str):
        raise InvalidInput(f"{what} is {type(value).__name__}, not text")
    text = str.__str__(value)
    if _SURROGATE.search(text):
        raise InvalidInput(f"{what}: {_shown(text)} holds half of a surrogate pair, which is not text")
    if "\0" in text:
        raise InvalidInput(f"{what}: {_shown(text)} holds the character U+0000, which no database keeps. Remove it")
    if most and len(text.encode()) > most:
        raise InvalidInput(f"{what} is longer than {most:,} bytes")
    return text


def child_id(parent_id: str, key: str) -> str:
    """The id of the child that `parent_id` starts under `key`: readable if short, otherwise with a hashed tail.

    A slash in the key is escaped, so two different (parent, key) pairs never give the same id.
    """
    escaped = key.replace("%", "%25").replace("/", "%2F")
    readable = f"{parent_id}/{escaped}"
    encoded = readable.encode()
    if len(encoded) <= MAX_BYTES:
        return readable
    tail = f"~{_digest(parent_id, key)}"
    return encoded[: MAX_BYTES - len(tail)].decode(errors="ignore") + tail


def idempotency_key(run_id: str, step_key: str) -> str:
    """The key that a step passes to other systems: the same for every attempt of one step of one run.

    Plain ASCII whatever the ids hold, because it travels in HTTP headers.
    """
    return _digest(run_id, step_key)


def _digest(first: str, second: str) -> str:
    # No id holds NUL, so the pair cannot be read in two ways.
    return hashlib.sha256(f"{first}\0{second}".encode()).hexdigest()[:_DIGEST]


def _problem(text: str) -> str:
    if not text:
        return f"is empty. Give 1 to {MAX_BYTES} bytes of text."
    if _SURROGATE.search(text):
        return "holds half of a surrogate pair, which is not text. Decode it properly first."
    if control := _CONTROL.search(text):
        return f"holds the control character U+{ord(control[0]):04X} at position {control.start()}. Remove it."
    if not any(character.isprintable() and character != " " for character in text):
        return "has no visible character. Give it at least one."
    if text != text.strip():
        return "begins or ends with a space. Strip it."
    size = len(text.encode())
    if size > MAX_BYTES:
        return f"has {size} bytes; at most {MAX_BYTES} are allowed. Shorten it, or use a hash of it."
    return ""


def _shown(text: str) -> str:
    shown = ascii(text)
    return shown if len(shown) <= 80 else f"{shown[:60]}…"

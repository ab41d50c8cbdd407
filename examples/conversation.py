"""What an agent and its model say to each other."""

from __future__ import annotations

import msgspec


class Message(msgspec.Struct, frozen=True):
    """By the user, the assistant or a tool; `tool` and `argument`: what the assistant asked for."""

    role: str
    text: str
    tool: str = ""
    argument: str = ""


class Delta(msgspec.Struct, frozen=True):
    """A piece of the model's answer: more text, or a tool that it wants."""

    text: str = ""
    tool: str = ""
    argument: str = ""

"""What errors of obstore mean for people. Pure."""

from __future__ import annotations

from typing import Final

_ADVICE: Final = (
    (
        "InvalidCertificate",
        "TLS failed: this machine does not trust the server's certificate, or it is for another host",
    ),
    ("InvalidContentType", "TLS failed: what answers there does not speak TLS. Is the endpoint http://?"),
    ("IncompleteMessage", "What answers there is not S3, or it expects TLS (https://)"),
    ("dns error", "There is no such host: check the endpoint"),
    ("ConnectionRefused", "Nothing listens there: check the endpoint and its port"),
    ("TimedOut", "It does not answer: check the endpoint, and the firewalls on the way"),
)
"""Texts of an error with all its causes, and the advice for it. The first text that is found counts."""


def is_of_wrong_clock(error: Exception) -> bool:
    """Whether a request was refused for its date: each is signed with the time of this machine."""
    return "RequestTimeTooSkewed" in str(error)


def sentence(error: Exception) -> str:
    """The first line of an error, which names the request, and advice. The other lines, the causes, are for
    programmers. Neither has keys."""
    whole = str(error)
    words = " ".join(whole.partition("\n")[0].split())[:300]
    return next((f"{words}. {advice}" for sign, advice in _ADVICE if sign in whole), words)

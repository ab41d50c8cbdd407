"""Hints for a word that is not known: the near ones."""

from __future__ import annotations

import difflib
from collections.abc import Sequence


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """ " Did you mean this or that?", or nothing."""
    near = difflib.get_close_matches(word, known, n=3, cutoff=0.6)
    near += [one for one in known if word and one.startswith(word) and one not in near][: 3 - len(near)]
    return f" Did you mean {' or '.join(near)}?" if near else ""

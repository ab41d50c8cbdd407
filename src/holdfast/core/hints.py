"""Hints for an unknown word: similar known ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.errors import DefinitionError


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """ " Did you mean this or that?", or nothing."""
    import difflib  # not light, and only needed when something is wrong

    near = difflib.get_close_matches(word, known, n=3, cutoff=0.6)
    near += [one for one in known if word and one.startswith(word) and one not in near][: 3 - len(near)]
    return f" Did you mean {' or '.join(near)}?" if near else ""


def check_options(given: Iterable[str], known: Sequence[str], what: str) -> None:
    """Raises `DefinitionError` for the first option that `what` does not have."""
    for name in given:
        if name not in known:
            raise DefinitionError(
                f"{what} has no option {name}=.{did_you_mean(name, known)} Its options are {', '.join(known)}."
            )

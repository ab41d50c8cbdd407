"""Reads workflow bodies for what would come out differently when they are replayed.

::

    linting    an app's workflows, one after the other, and the helpers that their bodies call
      │
    visiting   one body: what is called, awaited, iterated, changed, swallowed
      │
    names · kinds    what a name stands for, and what kind of value a local one holds
      │
    calls      what no body may call, and what to use instead
    reading    from a function to its source
    finding    what is reported

Names are looked up in the functions themselves, so `from time import time as t` is still a clock. Nothing is executed.
"""

from holdfast.lint.app_lint import Report, lint
from holdfast.lint.lint_finding import Finding

__all__ = ["Finding", "Report", "lint"]

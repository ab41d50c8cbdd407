"""Failures: any exception becomes bounded data; a declared one comes back as itself."""

from __future__ import annotations

import builtins
from typing import Any, NoReturn

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.failure import MAX_MESSAGE, MAX_TRACEBACK, NO_DATA, Failure, from_exception, rebuild, type_name

HERE = __name__


class Declined(Exception):
    def __init__(self, order: str, *, cents: int) -> None:
        super().__init__(f"{order} was declined")
        self.order = order
        self.cents = cents


class FraudSuspected(Declined):
    pass


class Slotted(Exception):
    __slots__ = ("code",)

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Rude(Exception):
    def __str__(self) -> NoReturn:
        raise SystemExit(3)


class Endless(Exception):
    def __str__(self) -> str:
        return str(self)


class Silent(Exception):
    def __str__(self) -> str:
        return None  # type: ignore[return-value]  # noqa: PLE0307 the point of the test


def raised(exc: BaseException) -> BaseException:
    try:
        raise exc  # noqa: TRY301
    except BaseException as caught:  # noqa: BLE001 the point of the test
        return caught


def there_and_back(exc: BaseException, *declared: type[BaseException]) -> Any:
    """Through the journal: as bytes."""
    stored = msgspec.json.encode(from_exception(exc, declared=declared))
    return rebuild(msgspec.json.decode(stored, type=Failure), declared)


def test_a_failure_says_type_message_and_traceback() -> None:
    failure = from_exception(raised(ValueError("no stock")))
    assert (failure.type, failure.message, failure.declared, failure.data) == ("ValueError", "no stock", False, NO_DATA)
    assert failure.traceback.startswith("Traceback (most recent call last):\n")
    assert "in raised\n    raise exc  # noqa: TRY301\n" in failure.traceback
    assert failure.traceback.endswith("\nValueError: no stock\n")


def test_without_a_traceback_the_last_line_remains() -> None:
    assert from_exception(ValueError("x")).traceback == "ValueError: x\n"


def test_only_what_differs_from_the_defaults_is_stored() -> None:
    assert msgspec.json.encode(Failure("A", "b")) == b'{"type":"A","message":"b"}'


def test_a_failure_is_frozen() -> None:
    with pytest.raises(AttributeError):
        from_exception(ValueError()).type = "x"  # type: ignore[misc]


def test_type_names_have_a_module_unless_builtin() -> None:
    assert type_name(ValueError) == "ValueError"
    assert type_name(Declined) == f"{HERE}.Declined"
    local = type("Local", (Exception,), {"__qualname__": "f.<locals>.Local", "__module__": "m"})
    assert type_name(local) == "m.f.<locals>.Local"
    odd = type("Odd", (Exception,), {"__module__": 5})
    assert type_name(odd) == "Odd"
    long = type("L" * 1000, (Exception,), {"__module__": "m"})
    assert len(type_name(long).encode()) == 512
    assert type_name(long).endswith("… (1002 bytes in all)")


# -- declared ----------------------------------------------------------------------------------------------------------


def test_a_declared_exception_comes_back_as_itself_without_its_constructor() -> None:
    back = there_and_back(raised(Declined("o-1", cents=5)), KeyError, Declined)
    assert type(back) is Declined
    assert (back.args, str(back), back.order, back.cents) == (("o-1 was declined",), "o-1 was declined", "o-1", 5)


def test_an_instance_of_a_subclass_comes_back_as_the_nearest_declared_class() -> None:
    failure = from_exception(FraudSuspected("o-1", cents=5), declared=(Exception, Declined))
    assert failure.type == f"{HERE}.FraudSuspected"
    assert failure.declared
    back = rebuild(failure, (Exception, Declined))
    assert type(back) is Declined
    assert back.order == "o-1"


def test_slots_and_notes_come_back() -> None:
    exc = Slotted(7)
    exc.add_note("look here")
    back = there_and_back(exc, Slotted)
    assert (back.code, back.args, back.__notes__) == (7, (7,), ["look here"])


@pytest.mark.parametrize(
    "exc",
    [
        KeyError("k"),
        ValueError(),
        ValueError("a", 1, None, 1.5, ["x"], {"y": True}),
        TimeoutError("late"),
        FileNotFoundError(2, "No such file", "/tmp/x"),
        OSError(5, "Input/output error"),
        OSError(18, "Cross-device link", "a", None, "b"),
        StopIteration(5),
        SystemExit(3),
        ZeroDivisionError("division by zero"),
    ],
    ids=repr,
)
def test_builtin_exceptions_come_back_whole(exc: Any) -> None:
    back = there_and_back(exc, type(exc))
    assert type(back) is type(exc)
    assert (back.args, str(back)) == (exc.args, str(exc))
    for name in ("errno", "filename", "filename2", "value", "code"):
        assert getattr(back, name, None) == getattr(exc, name, None)


def test_the_module_named_by_an_import_error_comes_back() -> None:
    back = there_and_back(ImportError("no module", name="shop", path="/x"), ImportError)
    assert (back.name, back.path, str(back)) == ("shop", "/x", "no module")


@pytest.mark.parametrize(
    ("exc", "reason"),
    [
        (ValueError(b"x"), "args[0] is not plain JSON; give it numbers, texts, lists and dicts only"),
        (ValueError(1, (2,)), "args[1] is not plain JSON"),
        (ValueError(float("nan")), "args[0] is not plain JSON"),
        (ValueError(object()), "args[0] is not plain JSON"),
        (Declined({1: 2}, cents=1), "state['order'] is not plain JSON"),  # type: ignore[arg-type]
        (ExceptionGroup("g", [ValueError()]), "args[1][0] is not plain JSON"),
        (ValueError("x" * 128 * 1024), "they take 131"),
    ],
    ids=lambda value: ascii(value)[:28],
)
def test_an_exception_whose_arguments_do_not_survive_says_so(exc: BaseException, reason: str) -> None:
    failure = from_exception(exc, declared=(Exception,))
    assert not failure.declared
    assert failure.data == NO_DATA
    assert failure.type == type_name(type(exc))
    assert f" (declared with raises= but its arguments do not come back: {reason}" in failure.message
    assert failure.message.endswith(")")
    assert len(failure.message.encode()) <= MAX_MESSAGE
    assert rebuild(failure, (Exception,)) is None


def test_a_declared_exception_up_to_the_inline_limit_is_kept() -> None:
    assert from_exception(ValueError("x" * 127 * 1024), declared=(ValueError,)).declared


def test_an_exception_that_says_something_else_afterwards_is_not_rebuilt() -> None:
    class Counting(Exception):
        shown = 0

        def __str__(self) -> str:
            Counting.shown += 1
            return str(Counting.shown)

    failure = from_exception(Counting(), declared=(Counting,))
    assert not failure.declared
    assert failure.message.endswith("do not come back: the rebuilt exception has a different message)")


def test_a_class_that_cannot_be_put_together_is_reported() -> None:
    class Fixed(Exception):
        @property
        def code(self) -> int:
            return 1

    exc = Fixed()
    exc.__dict__["code"] = 2
    failure = from_exception(exc, declared=(Fixed,))
    assert not failure.declared
    assert "do not come back: AttributeError: " in failure.message


def test_what_is_not_declared_is_not_rebuilt() -> None:
    failure = from_exception(Declined("o", cents=1), declared=(Declined,))
    assert rebuild(failure, ()) is None
    assert rebuild(failure, (KeyError,)) is None
    assert rebuild(from_exception(Declined("o", cents=1)), (Declined,)) is None
    assert rebuild(from_exception(Declined("o", cents=1), declared=(KeyError,)), (Declined,)) is None
    assert rebuild(Failure(failure.type, "", data=failure.data), (Declined,)) is None
    assert rebuild(Failure(failure.type, "", declared=True), (Declined,)) is None


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b'{"declared_as":5}', b'{"declared_as":"OSError","args":[2,"x"],"state":{}}']
)
def test_data_that_does_not_fit_is_not_rebuilt(data: bytes) -> None:
    assert rebuild(Failure("x", "", declared=True, data=msgspec.Raw(data)), (Declined, OSError)) is None


def test_no_class_is_found_by_a_name_in_data(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise AssertionError("imported")

    failure = from_exception(Declined("o", cents=1), declared=(Declined,))
    with monkeypatch.context() as patch:
        patch.setattr(builtins, "__import__", refuse)
        found = rebuild(failure, (Declined,)), rebuild(failure, (KeyError,))
    assert type(found[0]) is Declined
    assert found[1] is None


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.lists(json, max_size=4), st.dictionaries(st.from_regex(r"[a-z]{1,8}", fullmatch=True), json, max_size=3))
def test_plain_arguments_and_attributes_come_back_equal(args: list[Any], attributes: dict[str, Any]) -> None:
    exc = Exception(*args)
    vars(exc).update(attributes)
    back = there_and_back(exc, Exception)
    assert back.args == tuple(args)
    assert {name: value for name, value in vars(back).items() if name != "__notes__"} == attributes


# -- hostile -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cls", "error"), [(Rude, "SystemExit"), (Endless, "RecursionError"), (Silent, "TypeError")])
def test_a_message_that_cannot_be_read_is_replaced(cls: type[Exception], error: str) -> None:
    failure = from_exception(raised(cls("x")))
    assert failure.message == f"(its message could not be read: {error})"
    assert failure.type == f"{HERE}.{cls.__name__}"
    assert failure.traceback.endswith(f"{HERE}.{cls.__name__}: (its message could not be read: {error})\n")
    declared = from_exception(raised(cls("x")), declared=(cls,))
    assert declared.message == failure.message
    assert type(rebuild(declared, (cls,))) is cls


def test_ctrl_c_is_not_swallowed() -> None:
    class Interrupted(Exception):
        def __str__(self) -> NoReturn:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        from_exception(Interrupted())


def test_text_is_what_every_store_takes() -> None:
    failure = from_exception(ValueError("a\0b\ud800c"))
    assert failure.message == "a\\x00b\\ud800c"
    assert failure.traceback == "ValueError: a\\x00b\\ud800c\n"
    msgspec.json.encode(failure)


def test_a_message_is_cut_at_its_limit_and_says_so() -> None:
    assert MAX_MESSAGE == 8192
    assert from_exception(ValueError("x" * 8192)).message == "x" * 8192
    cut = from_exception(ValueError("x" * 8193)).message
    assert len(cut.encode()) == 8192
    assert cut.endswith("x… (8193 bytes in all)")
    wide = from_exception(ValueError("é" * 10**6)).message
    assert 8190 <= len(wide.encode()) <= 8192
    assert wide.startswith("ééé")
    assert wide.endswith("… (2000000 bytes in all)")


def test_a_traceback_is_cut_in_the_middle() -> None:
    assert MAX_TRACEBACK == 16384
    exc: BaseException = ValueError("the beginning" + "x" * 5000)
    for number in range(8):
        outer = ValueError(f"{number}" + "y" * 5000)
        outer.__cause__ = exc
        exc = outer
    trace = from_exception(exc).traceback
    assert 16380 <= len(trace.encode()) <= 16384
    assert trace.startswith("ValueError: the beginning")
    assert trace.endswith(" bytes in all)\n")
    head, note, tail = trace.partition("\n… (")
    assert note
    assert len(tail) // 2 - 50 < len(head) < len(tail) // 2 + 50
    short = from_exception(ValueError("x" * 100)).traceback
    assert "bytes in all" not in short


def test_causes_are_shown_oldest_first_as_python_does() -> None:
    try:
        try:
            raise KeyError("inner")  # noqa: TRY301
        except KeyError as error:
            raise ValueError("outer") from error
    except ValueError as error:
        trace = from_exception(error).traceback
    assert (
        trace.index("KeyError: 'inner'")
        < trace.index("direct cause of the following")
        < trace.index("ValueError: outer")
    )
    assert trace.count("Traceback (most recent call last)") == 2


def test_context_is_shown_unless_it_was_suppressed() -> None:
    outer, inner = ValueError("outer"), KeyError("inner")
    outer.__context__ = inner
    trace = from_exception(outer).traceback
    assert trace == (
        "KeyError: 'inner'\n"
        "\nDuring handling of the above exception, another exception occurred:\n\nValueError: outer\n"
    )
    outer.__suppress_context__ = True
    assert from_exception(outer).traceback == "ValueError: outer\n"
    outer.__cause__ = TypeError("cause")
    assert from_exception(outer).traceback == (
        "TypeError: cause\n"
        "\nThe above exception was the direct cause of the following exception:\n\nValueError: outer\n"
    )


def test_causes_in_a_circle_end() -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    trace = from_exception(first).traceback
    assert (trace.count("ValueError: first"), trace.count("ValueError: second")) == (1, 1)


def test_a_long_chain_of_causes_is_bounded() -> None:
    exc = ValueError("0")
    for number in range(1, 100_000):
        outer = ValueError(str(number))
        outer.__cause__ = exc
        exc = outer
    trace = from_exception(exc).traceback
    assert trace.startswith("(earlier causes left out)\n\nThe above exception was the direct cause")
    assert trace.count("ValueError: ") == 10
    assert trace.endswith("ValueError: 99999\n")
    ten = exc
    for _ in range(9):
        assert isinstance(ten.__cause__, ValueError)
        ten = ten.__cause__
    ten.__cause__ = None
    assert "left out" not in from_exception(exc).traceback
    while exc.__cause__ is not None:  # unlinked one by one: freeing a long chain is recursive
        exc.__cause__, exc = None, exc.__cause__  # type: ignore[assignment]


def test_a_deep_stack_shows_both_ends() -> None:
    def deeper(left: int) -> None:
        if left:
            middle(left - 1)
        raise ValueError("bottom")

    def middle(left: int) -> None:
        deeper(left)

    with pytest.raises(ValueError, match="bottom") as caught:
        deeper(200)
    trace = from_exception(caught.value).traceback
    assert f"  ({402 - 100} frames left out)\n" in trace
    assert trace.endswith("ValueError: bottom\n")
    with pytest.raises(ValueError, match="bottom") as caught:
        deeper(49)
    frames = from_exception(caught.value).traceback
    assert "left out" not in frames
    assert len(frames) > 1000


def test_a_group_is_summarised() -> None:
    group = ExceptionGroup("many", [ValueError(str(n)) for n in range(5)])
    failure = from_exception(group)
    assert failure.type == "ExceptionGroup"
    assert failure.message == (
        "many (5 sub-exceptions): ValueError: 0; ValueError: 1; ValueError: 2; ValueError: 3; ValueError: 4"
    )
    assert failure.traceback == "ExceptionGroup: many (5 sub-exceptions)\n" + "".join(
        f"  - ValueError: {n}\n" for n in range(5)
    )
    large = from_exception(BaseExceptionGroup("many", [KeyboardInterrupt() for _ in range(1000)]))
    assert large.message.endswith("; KeyboardInterrupt: ; 995 more")
    long = from_exception(ExceptionGroup("g", [ValueError("x" * 501)]))
    assert long.message == "g (1 sub-exception): ValueError: " + "x" * 466 + "… (513 bytes in all)"


def test_a_group_without_members_to_show_is_its_message() -> None:
    class Closed(ExceptionGroup[Exception]):
        @property
        def exceptions(self) -> NoReturn:
            raise RuntimeError("no")

    assert from_exception(Closed("g", [ValueError()])).message == "g (1 sub-exception)"


def test_notes_are_shown_up_to_five() -> None:
    exc = ValueError("x")
    for number in range(7):
        exc.add_note(f"note {number}")
    assert from_exception(exc).traceback == "ValueError: x\n" + "".join(f"note {n}\n" for n in range(5))
    exc.__notes__ = 5  # type: ignore[assignment]
    assert from_exception(exc).traceback == "ValueError: x\n"


def test_a_traceback_that_cannot_be_made_is_left_out() -> None:
    class Hidden(Exception):
        def __getattribute__(self, name: str) -> Any:
            if name == "__traceback__":
                raise RuntimeError("no")
            return super().__getattribute__(name)

    failure = from_exception(Hidden("x"))
    assert failure.traceback == "(the traceback could not be shown: RuntimeError)"
    assert failure.message == "x"


def test_huge_and_self_containing_arguments_are_no_problem() -> None:
    loop: list[Any] = []
    loop.append(loop)
    failure = from_exception(ValueError(loop, lambda: None, "x" * 10**6), declared=(ValueError,))
    assert not failure.declared
    assert len(failure.message.encode()) <= MAX_MESSAGE
    assert "declared with raises=" in failure.message
    assert len(msgspec.json.encode(failure)) < MAX_MESSAGE + MAX_TRACEBACK + 1000

"""Finds everything in one body that would differ on replay."""

from __future__ import annotations

import ast
import asyncio
import inspect
from collections import deque
from collections.abc import Callable, Iterator, MutableMapping, MutableSequence, MutableSet
from types import MethodType
from typing import Any

from holdfast.authoring.script.channels import Channel
from holdfast.authoring.script.functions import function_behind, is_a, is_coroutine_function
from holdfast.authoring.script.steps import AnyStep, StepDecorator, SyncStep, SyncStepWithOptions, step
from holdfast.authoring.script.workflows import AnyWorkflow
from holdfast.lint.forbidden_calls import METHODS, MUTATORS, ORDERED, SETTLING, VALUES, banned
from holdfast.lint.function_source import Definition
from holdfast.lint.kinds import Kinds
from holdfast.lint.lint_finding import Rule
from holdfast.lint.names import UNKNOWN, Names

Told = Callable[[ast.AST, Rule, str, str], None]

_SORT = "sort it first: `sorted(…)`"
_KEEP = "keep what changes in local variables, in the result of a step, or in a RunVar"
_AWAIT = "await it, or hand it to a TaskGroup or asyncio.gather"
_COLLECTIONS = (MutableMapping, MutableSequence, MutableSet, deque)


class Body(ast.NodeVisitor):
    """Visits one function. `helpers` are the plain functions it calls, to be read next."""

    def __init__(self, function: Callable[..., Any], definition: Definition, tell: Told) -> None:
        self._definition = definition
        self._names = Names(function, definition)
        self._kinds = Kinds(definition, self._names)
        self._tell = tell
        self._is_async = isinstance(definition, ast.AsyncFunctionDef)
        self._defaults = _mutable_defaults(definition)
        self.helpers: list[Callable[..., Any]] = []

    def read(self) -> None:
        """Visits the body. Default values and decorators were evaluated long before."""
        for statement in self._definition.body:
            self.visit(statement)
        self._unused_calls()

    # -- what is inside, and what is not -------------------------------------------------------------------------------

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._inner(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._inner(node)

    def _inner(self, node: Definition) -> None:
        decorators = [self._names.value(one.func if isinstance(one, ast.Call) else one) for one in node.decorator_list]
        if any(one is step or is_a(one, StepDecorator) for one in decorators):
            return  # a step: may do what it likes
        for statement in node.body:
            self.visit(statement)

    # -- calls ---------------------------------------------------------------------------------------------------------

    def visit_Call(self, node: ast.Call) -> None:
        name = self._full_name(node.func)
        value: Any = self._names.value(node.func)
        why = banned(name, has_arguments=bool(node.args or node.keywords)) if name else None
        if why is not None and not (why.rule == "identity" and self._is_plain(node)):
            self._tell(node, why.rule, f"{_said(node.func)}(…) in a workflow body", why.instead)
        self._threaded(node, name)
        self._ordered_call(node)
        self._changed_by_call(node)
        if self._is_async and is_a(value, (SyncStep, SyncStepWithOptions)):
            what = f"{_said(node.func)} is a plain step: called directly it would block"
            self._tell(node, "unawaited", what, f"`await asyncio.to_thread({_said(node.func)}, …)`")
        self._follow(value)
        self.generic_visit(node)

    def _follow(self, value: Any) -> None:
        """Follows plain functions, also behind decorators such as `functools.cache`."""
        plain = None if is_a(value, (AnyStep, AnyWorkflow)) else function_behind(value)
        if plain is not None:
            self.helpers.append(plain)

    def _full_name(self, function: ast.expr) -> str:
        """The full name of a forbidden method, with the class of the local value in front; how the value was made is
        judged where it was made."""
        if isinstance(function, ast.Attribute):
            method = f"{self._kinds.of(function.value)}.{function.attr}"
            if method in METHODS:
                return method
        return self._names.full_name(function)

    def _is_plain(self, node: ast.Call) -> bool:
        return bool(node.args) and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, int)

    def _threaded(self, node: ast.Call, name: str) -> None:
        if not name.endswith("asyncio.threads.to_thread") and name != "asyncio.to_thread":
            return
        target = self._names.value(node.args[0]) if node.args else UNKNOWN
        if target is not UNKNOWN and not is_a(target, (AnyStep, SyncStepWithOptions)):
            self._tell(node, "threads", f"{_said(node.args[0])} in a thread is not a step", "decorate it with @step")

    # -- values --------------------------------------------------------------------------------------------------------

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._looked_at(node)
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._looked_at(node)

    def _looked_at(self, node: ast.expr) -> None:
        why = VALUES.get(self._names.full_name(node))
        if why is not None:
            self._tell(node, why.rule, f"{_said(node)} in a workflow body", why.instead)

    # -- sets ----------------------------------------------------------------------------------------------------------

    def visit_For(self, node: ast.For) -> None:
        self._iterated(node.iter)
        self.generic_visit(node)

    def visit_ListComp(self, node: ast.ListComp) -> None:
        self._comprehended(node)

    def visit_DictComp(self, node: ast.DictComp) -> None:
        self._comprehended(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> None:
        self._comprehended(node)

    def _comprehended(self, node: ast.ListComp | ast.DictComp | ast.GeneratorExp) -> None:
        if not getattr(node, "is_settled", False):
            for generator in node.generators:
                self._iterated(generator.iter)
        self.generic_visit(node)

    def visit_Starred(self, node: ast.Starred) -> None:
        if isinstance(node.ctx, ast.Load):
            self._iterated(node.value)
        self.generic_visit(node)

    def _ordered_call(self, node: ast.Call) -> None:
        function = node.func
        if isinstance(function, ast.Name) and function.id not in self._names.local:
            if function.id in SETTLING:
                for argument in node.args:
                    setattr(argument, "is_settled", True)  # noqa: B010 ast nodes take notes
            elif function.id in ORDERED:
                for argument in node.args:
                    self._iterated(argument)
        elif isinstance(function, ast.Attribute):
            if function.attr in ("join", "extend", "fromkeys") and node.args:
                self._iterated(node.args[0])
            elif function.attr == "pop" and not node.args and self._kinds.is_set(function.value):
                self._tell(node, "sets", "which element a set pops differs from process to process", _SORT)

    def _iterated(self, node: ast.expr) -> None:
        if self._kinds.is_set(node):
            self._tell(node, "sets", f"{_said(node)} is a set: its order differs from process to process", _SORT)

    # -- what is left behind -------------------------------------------------------------------------------------------

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call) and self._is_awaitable(node.value):
            self._tell(node, "unawaited", f"{_said(node.value.func)}(…) is never awaited", _AWAIT)
        self.generic_visit(node)

    def _unused_calls(self) -> None:
        """Calls whose result is named and never used again."""
        mentioned = {
            node.id
            for node in ast.walk(self._definition)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        }
        for node in ast.walk(self._definition):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and self._is_awaitable(node.value):
                targets = [target for target in node.targets if isinstance(target, ast.Name)]
                if targets and not any(target.id in mentioned for target in targets):
                    self._tell(node, "unawaited", f"{_said(node.value.func)}(…) is never awaited", _AWAIT)

    def _is_awaitable(self, call: ast.Call) -> bool:
        value = self._names.value(call.func)
        if is_a(value, (SyncStep, SyncStepWithOptions)):
            return False
        if is_a(value, (AnyStep, AnyWorkflow)):
            return True
        if any(value is one for one in (asyncio.create_task, asyncio.ensure_future, asyncio.gather)):
            return True
        if is_a(value, MethodType) and is_a(value.__self__, Channel) and value.__func__.__name__ == "wait":
            return True
        if isinstance(call.func, ast.Attribute) and call.func.attr == "options":
            return False
        is_options = isinstance(call.func, ast.Call) and isinstance(call.func.func, ast.Attribute)
        if is_options and call.func.func.attr == "options":  # type: ignore[attr-defined]
            return is_a(self._names.value(call.func.func.value), AnyStep)  # type: ignore[attr-defined]
        return is_coroutine_function(value)

    # -- what outlives the run -----------------------------------------------------------------------------------------

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._changed(target)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._changed(node.target)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._changed(node.target)
            self.visit(node.value)

    def visit_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            self._changed(target)

    def _changed(self, target: ast.expr) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            for one in target.elts:
                self._changed(one)
            return
        root = _root(target)
        if root is None:
            return
        if root.id in self._names.local:
            if target is not root and root.id in self._defaults:
                self._tell(target, "globals", f"{root.id} is a default value, shared by all calls", _KEEP)
        elif self._names.is_outer(root.id) or target is root:
            self._tell(target, "globals", f"{_said(target)} outlives the run and is not replayed", _KEEP)

    def _changed_by_call(self, node: ast.Call) -> None:
        function = node.func
        if isinstance(function, ast.Name) and function.id == "next" and node.args:
            root = _root(node.args[0])
            if root is not None and self._names.is_outer(root.id):
                self._tell(node, "globals", f"{_said(node.args[0])} keeps its value from call to call", _KEEP)
        if not isinstance(function, ast.Attribute) or function.attr not in MUTATORS:
            return
        root = _root(function.value)
        if root is None:
            return
        if root.id in self._names.local:
            if root.id in self._defaults:
                self._tell(node, "globals", f"{root.id} is a default value, shared by all calls", _KEEP)
        elif self._names.is_outer(root.id) and is_a(self._held(function.value), _COLLECTIONS):
            self._tell(node, "globals", f"{_said(function.value)} outlives the run and is not replayed", _KEEP)

    def _held(self, node: ast.expr) -> Any:
        """What a module-level expression holds now; plain items and attributes are followed."""
        value = self._names.value(node)
        if value is not UNKNOWN:
            return value
        if isinstance(node, ast.Subscript):
            return self._held(node.value)
        if isinstance(node, ast.Attribute):
            base = self._held(node.value)
            return inspect.getattr_static(base, node.attr, UNKNOWN) if base is not UNKNOWN else UNKNOWN
        return UNKNOWN

    # -- cancellation --------------------------------------------------------------------------------------------------

    def visit_Try(self, node: ast.Try) -> None:
        awaits = any(isinstance(inner, ast.Await) for statement in node.body for inner in ast.walk(statement))
        for handler in node.handlers if awaits else ():
            caught = list(self._caught(handler))
            raises = any(isinstance(inner, ast.Raise) for statement in handler.body for inner in ast.walk(statement))
            if caught and not raises:
                what = f"`except {caught[0]}` swallows the cancellation of the run"
                self._tell(handler, "cancellation", what, "catch Exception, or raise it again")
                break
            if caught:
                break  # the handlers after it never see a cancellation
        self.generic_visit(node)

    def _caught(self, handler: ast.ExceptHandler) -> Iterator[str]:
        if handler.type is None:
            yield ":"
            return
        kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        for kind in kinds:
            if self._names.value(kind) in (BaseException, asyncio.CancelledError):
                yield _said(kind)


def _root(node: ast.expr) -> ast.Name | None:
    """`a` of `a.b[c].d`."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
        node = node.value
    return node if isinstance(node, ast.Name) else None


def _said(node: ast.expr) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _mutable_defaults(definition: Definition) -> frozenset[str]:
    arguments = definition.args
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = [*zip(reversed(positional), reversed(arguments.defaults), strict=False)]
    pairs += [
        (one, default) for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default
    ]
    kinds = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
    return frozenset(one.arg for one, default in pairs if isinstance(default, kinds))

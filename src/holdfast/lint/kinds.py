"""The kind of value that a local name holds, as far as the text of the function shows it."""

from __future__ import annotations

import ast

from holdfast.authoring.script.functions import is_a
from holdfast.lint.function_source import Definition
from holdfast.lint.names import Names

SET = "builtins.set"
_SETS = frozenset({SET, "builtins.frozenset", "collections.abc.Set", "typing.AbstractSet", "typing.Set"})
_SET_METHODS = frozenset({"union", "intersection", "difference", "symmetric_difference", "copy"})
_SET_OPERATORS = (ast.BitOr, ast.BitAnd, ast.Sub, ast.BitXor)


class Kinds:
    """Class names of expressions. A name with two kinds has none."""

    def __init__(self, definition: Definition, names: Names) -> None:
        self._names = names
        self._of: dict[str, str] = {}
        for argument in ast.walk(definition.args):
            if isinstance(argument, ast.arg) and argument.annotation is not None:
                self._of[argument.arg] = self._annotated(argument.annotation)
        for node in ast.walk(definition):
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                self._learn(node.targets[0], self.of(node.value))
            elif isinstance(node, ast.AnnAssign):
                self._learn(node.target, self._annotated(node.annotation))
            elif isinstance(node, ast.NamedExpr):
                self._learn(node.target, self.of(node.value))

    def of(self, node: ast.expr) -> str:
        """The class of an expression's value; empty if unknown."""
        if isinstance(node, ast.Set | ast.SetComp):
            return SET
        if isinstance(node, ast.Name):
            if node.id in self._of:
                return self._of[node.id]
            value = self._names.value(node)
            return SET if is_a(value, (set, frozenset)) else ""
        if isinstance(node, ast.BinOp):
            if isinstance(node.op, _SET_OPERATORS) and self.is_set(node.left) and self.is_set(node.right):
                return SET
            return self.of(node.left) if isinstance(node.op, ast.Div) else ""
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr in _SET_METHODS and self.is_set(node.func.value):
                return SET
            name = self._names.full_name(node.func)
            return name if name.rpartition(".")[2][:1].isupper() or name in _SETS else ""
        if isinstance(node, ast.IfExp):
            return self.of(node.body) if self.of(node.body) == self.of(node.orelse) else ""
        return ""

    def is_set(self, node: ast.expr) -> bool:
        """Whether an expression is known to be a set."""
        return self.of(node) in _SETS

    def _learn(self, target: ast.expr, kind: str) -> None:
        if isinstance(target, ast.Name):
            known = self._of.get(target.id, kind)
            self._of[target.id] = kind if known == kind else ""

    def _annotated(self, annotation: ast.expr) -> str:
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            try:
                annotation = ast.parse(annotation.value, mode="eval").body
            except SyntaxError:
                return ""
        if isinstance(annotation, ast.Subscript):
            annotation = annotation.value
        return self._names.full_name(annotation)

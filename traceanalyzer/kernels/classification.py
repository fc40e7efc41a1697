"""Which kind of work a kernel does, told from its name: the first rule that matches holds.

The rules are data (`classes.toml`). A name that no rule knows is unclassified, and a whole-graph
row is a class of its own, because it can hold anything.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceanalyzer.errors import InputError
from traceanalyzer.schema import OP_KINDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.trace import Trace

CLASSES: Final = (
    "attention",
    "MoE GEMM",
    "MoE routing",
    "dense GEMM",
    "all-reduce",
    "other collective",
    "norm",
    "rotary",
    "activation",
    "quantise",
    "sampling/top-k",
    "tree build",
    "KV cache write",
    "copy",
    "elementwise/other",
    "whole graph",
    "unclassified",
)
COLLECTIVES: Final = frozenset({"all-reduce", "other collective"})
COPY: Final = CLASSES.index("copy")
WHOLE_GRAPH: Final = CLASSES.index("whole graph")
UNCLASSIFIED: Final = CLASSES.index("unclassified")

_KEYS: Final = {"name": str, "class": str, "pattern": str, "examples": list}


@dataclass(frozen=True, slots=True)
class KernelRule:
    """What kernels of some names do.

    Attributes:
        name: What the rule is about.
        kernel_class: Place in `CLASSES`.
        pattern: Regular expression (linear time, no look-around) that must occur in the name, in
            any case.
        examples: Names that the rule takes, no earlier one does.
    """

    name: str
    kernel_class: int
    pattern: str
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KernelRules:
    """Rules in the order in which they are tried."""

    rules: tuple[KernelRule, ...]

    @classmethod
    @cache
    def shipped(cls) -> KernelRules:
        """The rules for the kernels of SGLang, vLLM, TensorRT-LLM, their libraries and PyTorch."""
        text = resources.files(__package__).joinpath("classes.toml").read_text(encoding="utf-8")
        return cls.from_text(text, "classes.toml", check_patterns=False)

    @classmethod
    def from_text(cls, text: str, where: str, *, check_patterns: bool = True) -> KernelRules:
        """Read rules from the text of a TOML file of `[[rule]]` tables.

        Args:
            text: The file's text.
            where: The file's name.
            check_patterns: Compile each pattern, which costs time; the shipped are tested.

        Raises:
            InputError: The text is no TOML, or one of its rules cannot be used.
        """
        try:
            tables = tomllib.loads(text).get("rule")
        except tomllib.TOMLDecodeError as error:
            raise InputError(
                f"the rule file is no TOML: {error}",
                where=where,
                next_step="Put regular expressions in single quotes: pattern = 'gemm'.",
            ) from None
        if not isinstance(tables, list) or not tables:
            raise InputError(
                "the rule file holds no list of rules",
                where=where,
                next_step="Begin each rule with [[rule]], in two pairs of brackets.",
            )
        rules = tuple(
            _rule(table, f"{where}, rule {number}") for number, table in enumerate(tables, 1)
        )
        if check_patterns:
            for number, rule in enumerate(rules, 1):
                _check_pattern(rule.pattern, f"{where}, rule {number}")
        return cls(rules)

    def first_rule(self, names: pl.Series) -> NDArray[np.int64]:
        """Place in `rules` of the first rule that takes each name, -1 when none does."""
        # Names that a rule has taken are not tried on again: most are taken early.
        found = np.full(len(names), -1, np.int64)
        rest = np.arange(len(names))
        texts = names
        for place, rule in enumerate(self.rules):
            if not rest.size:
                break
            taken = texts.str.contains(_anywhere(rule.pattern)).fill_null(False).to_numpy()
            if taken.any():
                found[rest[taken]] = place
                rest = rest[~taken]
                texts = names.gather(rest)
        return found

    def classify(self, names: pl.Series) -> NDArray[np.int64]:
        """The class of each kernel name.

        Args:
            names: Kernel names, mangled or not, short or with their arguments; each once, for
                speed.

        Returns:
            Places in `CLASSES`; names that no rule takes are unclassified.
        """
        # Traces of one comparison hold the same kernels, and rules cost 18 ms to compile.
        known, texts = _known(self), names.to_list()
        if unknown := [text for text in dict.fromkeys(texts) if text not in known]:
            classes = [*(rule.kernel_class for rule in self.rules), UNCLASSIFIED]
            found = self.first_rule(pl.Series(unknown, dtype=pl.String))
            known.update(zip(unknown, (classes[place] for place in found), strict=True))
        return np.array([known[text] for text in texts], np.int64)


@cache
def _known(rules: KernelRules) -> dict[str | None, int]:
    """Names that these rules have classified in this process."""
    return {}


@dataclass(frozen=True, slots=True)
class OpKernels:
    """The kernels of a trace; copies, memory sets and whole-graph rows are such of their class.

    Attributes:
        of_op: Kernel of each op.
        kernel_class: Class of each kernel, a place in `CLASSES`; they are by class and name.
        name: Row in `trace.names` of each kernel.
    """

    of_op: NDArray[np.int64]
    kernel_class: NDArray[np.int64]
    name: NDArray[np.int64]


def class_of_ops(trace: Trace, rules: KernelRules | None = None) -> NDArray[np.int64]:
    """The class of every op: kernels by name, each distinct name once; other ops by their kind.

    Args:
        trace: The tables.
        rules: Rules to use instead of the shipped ones.

    Returns:
        Place in `CLASSES` of each op; copies and memory sets are "copy".
    """
    kernels = kernels_of_ops(trace, rules)
    return kernels.kernel_class[kernels.of_op]


def kernels_of_ops(trace: Trace, rules: KernelRules | None = None) -> OpKernels:
    """The kernel of every op, see `class_of_ops`."""
    names = trace.names.height
    code = trace.ops["kind"].to_physical().to_numpy().astype(np.int64)
    code *= names
    code += trace.ops["name"].to_numpy()
    occurs = np.zeros(len(OP_KINDS) * names, bool)
    occurs[code] = True
    used = np.flatnonzero(occurs)
    kind, name = used // max(names, 1), used % max(names, 1)
    classes = np.where(kind == OP_KINDS.index("graph"), WHOLE_GRAPH, COPY)
    is_kernel = kind == OP_KINDS.index("kernel")
    texts = trace.names["text"].gather(name[is_kernel])
    classes[is_kernel] = (rules or KernelRules.shipped()).classify(texts)
    keys, place = np.unique(classes * names + name, return_inverse=True)
    of_code = np.zeros(occurs.size, np.int64)
    of_code[used] = place
    return OpKernels(of_code[code], keys // max(names, 1), keys % max(names, 1))


def _rule(table: object, where: str) -> KernelRule:
    keys = f"Write the keys {', '.join(_KEYS)}."
    if not isinstance(table, dict):
        raise InputError("the rule is no table", where=where, next_step=keys)
    for key, kind in _KEYS.items():
        if not isinstance(table.get(key), kind):
            raise InputError(f"{key} is missing or of the wrong type", where=where, next_step=keys)
    if unknown := sorted(table.keys() - _KEYS.keys()):
        raise InputError(f"unknown key {unknown[0]!r}", where=where, next_step=keys)
    if table["class"] not in CLASSES:
        raise InputError(
            f"there is no class {table['class']!r}",
            where=where,
            next_step=f"Write one of {', '.join(CLASSES)}.",
        )
    return KernelRule(
        name=table["name"],
        kernel_class=CLASSES.index(table["class"]),
        pattern=_single_line(table["pattern"]),
        examples=tuple(table["examples"]),
    )


def _check_pattern(pattern: str, where: str) -> None:
    try:
        pl.Series([""]).str.contains(_anywhere(pattern))
    except pl.exceptions.ComputeError as error:
        raise InputError(
            f"pattern is no regular expression that polars can run: {str(error).splitlines()[-1]}",
            where=where,
            next_step="Write it without look-around and back-references (syntax of Rust's regex).",
        ) from None


def _anywhere(pattern: str) -> str:
    return f"(?i:{pattern})"


def _single_line(pattern: str) -> str:
    """A pattern that is written over several lines: line breaks and indentation mean nothing."""
    return "".join(line.strip() for line in pattern.splitlines())

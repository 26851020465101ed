"""Names in docstrings, comments and pages: each file, function, command and setting exists and is current."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

from scripts.facts.files import ROOMS, ROOT, all_files, is_product
from scripts.facts.texts import source, tree

SPAN: Final = re.compile(r"(?<!`)(?:``([^`]+)``|`([^`\n]+)`)(?!`)")
_DOCSTRING = re.compile(r'^[ \t]*[rR]?"""(?:[^"\\]|\\.|"(?!""))*"""', re.MULTILINE)
_COMMENT = re.compile(r"(?:^|\s)#\s.*$", re.MULTILINE)
_PATH = re.compile(
    r"(?<![\w/.$<{:~*-])(?:\.{1,2}/)*((?:[\w.-]+/)+[\w.-]+\.(?:py|sql|md|json|toml|ya?ml|txt))\b(?![/\w-])"
)
_LISTING = re.compile(r"^```(?:sh|bash|console)\b.*?\n(.*?)^```", re.MULTILINE | re.DOTALL)
_CODE_FILE = re.compile(r"[\w.-]+\.(?:py|sql)")
_MIGRATION = re.compile(r"\b0\d{3}_\w+\.sql")
_SETTING = re.compile(r"(?<![\w-])HOOKWIRE_[A-Z0-9_]*[A-Z0-9](?!\w|\*|<|\{)")
_OBJECT = re.compile(r"(?<![\w./:@-])hookwire\.(\w+)(\(?)(?![\w.:/-])")
_NAME = re.compile(r"([A-Za-z_]\w*(?:\.\w+)*)(\([^`]*\))?")
_COMMAND = re.compile(
    r"(?:^|[/(]|(?:\$|exec|run|\|) )hookwire((?: +[a-z][a-z-]*)*)((?: +[^\s|#;&>\\]+)*)", re.MULTILINE
)
_OPTION = re.compile(r"--[a-z][a-z-]*")
_TARGET = re.compile(r"^make ([a-z][a-z-]*)", re.MULTILINE)
_CLASS = re.compile(r"^class (\w+)(?:\(([^)]*)\))?:((?:\n(?![^\s)]).*)*)", re.MULTILINE)
PLACEHOLDERS: Final = ("name", "internal", "dump")
"""Words after `hookwire.` that name no object: `hookwire.name` of an instruction, a host and a file of examples."""
PRODUCT: Final = (*(f"{room}/" for room in ROOMS), "scripts/", "openapi/", "pyproject.toml")
FOREIGN: Final = ("consumer_timeout", "Shop.outbox", "hookwire.rabbithub.x7.k.eu.orders", "_XX", "basic.qos")
"""Names that are no names of ours: an option of RabbitMQ, a call of AMQP, and examples."""
BUILT: Final = ("dist/", "build/", "target/")
MAY_CITE_MIGRATIONS: Final = ("CHANGELOG.md", "db/migrate.py", "db/migrations/", "docs/adr/", "tests/")


# --- what exists ------------------------------------------------------------------------------------------------


@cache
def words(*folders: str) -> frozenset[str]:
    """Return each word of the code in some folders: identifiers, words of strings, columns; not those of prose."""
    found: set[str] = set()
    for name in all_files():
        if not name.startswith(folders or "") or name.endswith((".md", ".png", ".svg", ".ico", ".gz", ".parquet")):
            continue
        text = (ROOT / name).read_text(encoding="utf-8", errors="replace")
        if name.endswith(".py"):
            text = _COMMENT.sub("", _DOCSTRING.sub("", text))
        elif name.endswith(".sql"):
            text = re.sub(r"--.*", "", text)
        found.update(re.findall(r"\w+", text), re.findall(r"\bhookwire\.\w+", text))
    return frozenset(found)


@cache
def ends_of_paths() -> frozenset[str]:
    """Return each path of a file, also without its first folders."""
    parts = [Path(name).parts for name in all_files()]
    return frozenset("/".join(path[begin:]) for path in parts for begin in range(len(path)))


@cache
def sql_functions() -> frozenset[str]:
    """Return the functions of the schema."""
    texts = (source(path) for path in (ROOT / "db/functions").glob("*.sql"))
    made = r"^CREATE OR REPLACE (?:FUNCTION|PROCEDURE) hookwire\.(\w+)"
    return frozenset(name for text in texts for name in re.findall(made, text, re.MULTILINE))


@cache
def sdk_names() -> frozenset[str]:
    """Return the names that ``import hookwire`` offers, and its modules."""
    package = ROOT / "sdk/src/hookwire"
    offered = {alias.asname or alias.name for node in ast.walk(tree(package / "__init__.py"))
               if isinstance(node, ast.ImportFrom) for alias in node.names}  # fmt: skip
    return frozenset(offered | {path.stem for path in package.iterdir()})


@cache
def members() -> dict[str, frozenset[str]]:
    """Return the words in each class of ours whose name is used once and whose bases are ours as well."""
    classes: dict[str, list[tuple[str, str]]] = {}
    for name in all_files():
        if name.endswith(".py"):
            for found in _CLASS.finditer(source(ROOT / name)):
                classes.setdefault(found[1], []).append((found[2] or "", found[3]))

    @cache
    def own(name: str) -> frozenset[str] | None:
        match classes.get(name, []):
            case [(listed, body)]:
                bases = [own(base.partition("[")[0].strip()) for base in listed.split(",") if base.strip()]
                inner = re.findall(r"\w+", body)
                return None if None in bases else frozenset(inner).union(*(base for base in bases if base))
            case _:
                return frozenset() if name in ("Protocol", "NamedTuple", "Generic", "ABC", "object") else None

    return {name: held for name in classes if (held := own(name)) is not None}


@cache
def settings() -> frozenset[str]:
    """Return settings, and other variables that our programs read or set."""
    from app.settings.settings import Settings

    return frozenset(f"HOOKWIRE_{name.upper()}" for name in Settings.model_fields) | words()


@cache
def commands() -> dict[tuple[str, ...], frozenset[str]]:
    """Return the options of each command, by its words."""
    from typer.main import get_group

    from app.cli.main import application

    found: dict[tuple[str, ...], frozenset[str]] = {}

    def add(command: Any, *before: str) -> None:
        found[before] = frozenset(["--help", *(o for one in command.params for o in (*one.opts, *one.secondary_opts))])
        for name, below in getattr(command, "commands", {}).items():
            add(below, *before, name)

    add(get_group(application()))
    return found


@cache
def targets() -> frozenset[str]:
    """Return the targets of the Makefile."""
    return frozenset(re.findall(r"^([a-z][a-z-]*):", source(ROOT / "Makefile"), re.MULTILINE))


# --- what a text names ------------------------------------------------------------------------------------------


def missing_names(name: str, text: str) -> Iterator[str]:
    """Yield a finding for each name in a text of a file that does not exist or is outdated."""
    spans = [" ".join((double or single).split()) for double, single in SPAN.findall(text)]
    yield from (f"no file {found}" for found in _missing_files(name, text, spans))
    yield from (f"no setting {found}" for found in _SETTING.findall(text) if not _is_setting(found))
    yield from (f"no hookwire.{found}" for found in _missing_objects(text))
    yield from (f"no {span}" for span in spans if _is_missing(name, span))
    listings = (
        re.findall(r"^```(?:sh|bash|console)\b.*?\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        if name.endswith(".md")
        else []
    )
    yield from (f"no {found}" for typed in [*spans, *listings] for found in _missing_commands(typed))
    if not name.startswith(MAY_CITE_MIGRATIONS):
        yield from (f"{found} may be outdated: cite db/functions" for found in _MIGRATION.findall(text))


def _missing_files(name: str, text: str, spans: list[str]) -> Iterator[str]:
    named = {found for found in _PATH.findall(text) if not found.startswith(BUILT)}
    if not name.endswith(".md"):
        named |= {span for span in spans if _CODE_FILE.fullmatch(span)}
    for found in sorted(named):
        if found.lstrip("./") not in ends_of_paths() and not (ROOT / name).parent.joinpath(found).exists():
            yield found


def _is_setting(found: str) -> bool:
    return found in settings() or found.startswith("HOOKWIRE_HEADER_")


def _missing_objects(text: str) -> Iterator[str]:
    for found, call in _OBJECT.findall(text):
        is_word = not call and (f"hookwire.{found}" in words() or found in PLACEHOLDERS)
        if not is_word and found not in sql_functions() | sdk_names():
            yield f"{found}{call}"


def _missing_commands(typed: str) -> Iterator[str]:
    yield from (f"make {target}" for target in _TARGET.findall(typed) if target not in targets())
    for line in typed.replace("\\\n", " ").splitlines():
        for verbs, rest in _COMMAND.findall(line):
            yield from _missing_command(verbs.split(), rest)


def _missing_command(verbs: list[str], rest: str) -> Iterator[str]:
    path: tuple[str, ...] = ()
    while verbs and (*path, verbs[0]) in commands():
        path = (*path, verbs.pop(0))
    is_group = any(len(other) > len(path) and other[: len(path)] == path for other in commands())
    if verbs and is_group:
        yield f"hookwire {' '.join([*path, verbs[0]])}"
    elif path and not is_group:
        options = _OPTION.findall(re.split(r" -- | --exec ", f"{rest} ")[0])
        yield from (f"hookwire {' '.join(path)} {option}" for option in options if option not in commands()[path])


def _is_missing(name: str, span: str) -> bool:
    """Return whether a span is an identifier, perhaps with dots or a call, with a part that our code does not hold.

    A page or a test may speak of another program: of its spans, only calls and attributes of our classes are looked up.
    """
    found = _NAME.fullmatch(span)
    if not found or found[1] in FOREIGN or _CODE_FILE.fullmatch(span) or _SETTING.fullmatch(span):
        return False
    [first, *others] = found[1].split(".")
    if others and first in members() and others[0] not in members()[first]:
        return True
    is_name = found[2] or (not name.endswith(".md") and not name.startswith("tests/") and ("_" in span or others))
    return bool(is_name) and not {first, *others} <= words(*(PRODUCT if is_product(name) else ()))

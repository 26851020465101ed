"""Verdict page: the result of ``hookwire prove`` as one HTML file without a script, for people who were not there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from string import Template
from typing import Final

from app.chaos.verdict import ProveOutcome, ProveRun, evidence, legend, sentence, summary, table

__all__ = ["verdict_page"]

_PAGE: Final = Template("""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>hookwire prove: $word</title>
<style>
:root { color-scheme: light dark; --line: #8884; --soft: #8882; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
.verdict { padding: .8rem 1rem; border-radius: .5rem; border-left: .4rem solid; background: var(--soft); }
.good { border-color: #2e8b57; } .bad { border-color: #c0392b; } .open { border-color: #b8860b; }
.wide { overflow-x: auto; } table { border-collapse: collapse; min-width: 100%; font-size: .92rem; }
th, td { text-align: left; padding: .3rem .7rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
code { overflow-wrap: anywhere; }
</style></head><body>
<h1>hookwire prove</h1>
<p class="verdict $tone">$sentence</p>
<p>$facts</p>
$parts
</body></html>
""")


_TONES: Final = {ProveOutcome.PASS: "good", ProveOutcome.FAIL: "bad", ProveOutcome.NOT_FINISHED: "open"}


def verdict_page(run: ProveRun, again: str) -> str:
    """Return the whole document; ``again`` is the command that repeats the run."""
    parts = [_faults(run)]
    if run.report is not None:
        parts += [_part("Counts of each sink", _table(table(run.report.sinks))), _legend(run)]
    failures = [*run.failures, *run.crashes, *(evidence(run.report) if run.report is not None else ())]
    lists = {"Failures": failures, "Not finished": run.unfinished}
    parts += [_list(title, texts) for title, texts in lists.items() if texts]
    counts = f"<code>{escape(summary(run.report))}</code><br>" if run.report is not None else ""
    return _PAGE.substitute(
        word=run.outcome,
        tone=_TONES[run.outcome],
        sentence=escape(sentence(run)),
        facts=f"{counts}{run.seconds:.0f} s, seed {run.seed}; repeat it with <code>{escape(again)}</code>",
        parts="\n".join(parts),
    )


def _faults(run: ProveRun) -> str:
    rows = [
        [f"{harm.at_seconds:.1f} s", str(harm.fault), harm.note, f"{harm.seconds:.1f} s", f"{harm.accepted:,}"]
        for harm in run.harms
    ]
    heads = ["At", "Fault", "What happened", "Took", "Accepted meanwhile"]
    return _part("Faults, one after the other", _table([heads, *rows]))


def _legend(run: ProveRun) -> str:
    rows = legend(run).items()
    return _part("Meaning of the words", _table([["Word", "Meaning"], *map(list, rows)]))


def _part(title: str, content: str) -> str:
    return f'<h2>{escape(title)}</h2><div class="wide">{content}</div>'


def _list(title: str, texts: Iterable[str]) -> str:
    return _part(title, "<ul>" + "".join(f"<li><code>{escape(text)}</code></li>" for text in texts) + "</ul>")


def _table(rows: Sequence[Sequence[str]]) -> str:
    heads, *others = rows
    return f"<table>{_row('th', heads)}{''.join(_row('td', row) for row in others)}</table>"


def _row(tag: str, cells: Iterable[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

"""The runner of pages: it notices when a page is wrong. No hub is needed for that."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs import doc_runner
from tests.docs.doc_runner import BlockFailed, BlockOverdue, DocRunner, Hub, blocks_of

PAGE = """\
```sh
false
```

```sh test
echo evt_abcd2345_7
```
<!-- expect: evt_ -->

```sh test
echo again evt_k3v7q2ha_1 at 127.0.0.1:8080
```
<!-- expect: again evt_abcd2345_7 at 127.0.0.1:1234 -->
"""


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[DocRunner]:
    """A runner that needs no hub."""
    made = DocRunner(Hub("127.0.0.1:1234", []), tmp_path, 9999)
    yield made
    made.end_background()


def run_page(runner: DocRunner, text: str) -> None:
    """Run a page with this text."""
    page = runner.folder / "page.md"
    page.write_text(text)
    for block in blocks_of(page):
        runner.run(block)
    runner.finish()


def test_marked_blocks_run_with_the_values_that_earlier_ones_printed(runner: DocRunner) -> None:
    run_page(runner, PAGE)
    assert runner.values == {"evt_k3v7q2ha_1": "evt_abcd2345_7"}


@pytest.mark.parametrize(
    "wrong",
    [
        "```sh test\nfalse\n```\n",
        "```sh test\nfalse | true\n```\n",
        "```sh test\necho a\n```\n<!-- expect: b -->\n",
        "```sh test\necho a\n```\n<!-- until: b -->\n",
        "```sh test background\necho a\n```\n<!-- background: b -->\n",
        "```sh test background\necho a\n```\n<!-- background: a -->\n```sh test\ntrue\n```\n<!-- never: a -->\n",
    ],
    ids=["fails", "fails in a pipe", "prints something else", "never prints it", "silent background", "printed never"],
)
def test_a_page_that_is_wrong_is_found(wrong: str, runner: DocRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doc_runner, "WAIT_SECONDS", 0.2)
    with pytest.raises((BlockFailed, BlockOverdue)):
        run_page(runner, wrong)

"""Each page with commands or code is run as it is written, or is listed here with the reason why it is not."""

from __future__ import annotations

import re

from tests.docs.test_docs import PAGES, RUN_PAGES, named

_FENCE = re.compile(r"^```(?:sh|bash|sql|python)( [a-z0-9 ]+)?\n", re.MULTILINE)
_RUN = ("lake", "s3", "follow")
"""Words of fences that `tests/pipeline/test_pages.py`, `test_s3.py`, `test_migrate.py` and `test_mariadb.py` run."""

BLOCKS = "tests/pipeline/test_page_blocks.py names the test that runs each block, or proves what can be proven here"
BROKER = "needs a broker or cluster of the reader's; a tutorial or example of the same is run"
HOSTS = "shows programs on several hosts; tests/reqrep and tests/ancestors run them with other addresses"
PARTS = "shows parts of a program; tests/sdk, tests/interop or test_six_lines run them whole"
MINUTES = "names make targets that take minutes or hours; CI runs them"
OWN = "names what only the reader has: a broken endpoint, an old version, a proxy, a repository, ids"
ONE = "shows one request; a test of its route makes it"
NOT_RUN = {
    "CONTRIBUTING.md": MINUTES, "SECURITY.md": OWN, "benchmarks/README.md": MINUTES, "docs/README.md": OWN,
    "docs/explanation/faults.md": MINUTES, "docs/how-to/amqp-source.md": BROKER, "docs/how-to/amqp.md": BROKER,
    "docs/how-to/behind-a-balancer.md": OWN,
    "docs/how-to/binary-star.md": HOSTS, "docs/how-to/bridge.md": HOSTS, "docs/how-to/chat.md": OWN,
    "docs/how-to/client.md": PARTS, "docs/how-to/compare-products.md": MINUTES,
    "docs/how-to/dead-letters.md": OWN, "docs/how-to/embed.md": PARTS,
    "docs/how-to/embedded-database.md": OWN, "docs/how-to/endpoint-numbers.md": OWN,
    "docs/how-to/freelance.md": HOSTS, "docs/how-to/go.md": PARTS, "docs/how-to/high-availability.md": OWN,
    "docs/how-to/install.md": OWN, "docs/how-to/java.md": PARTS,
    "docs/how-to/incidents.md": OWN,
    "docs/how-to/kafka-source.md": BROKER, "docs/how-to/kubernetes.md": BROKER,
    "docs/how-to/lake-kubernetes.md": BLOCKS, "docs/how-to/lake-yarn.md": BLOCKS, "docs/how-to/layout.md": BROKER,
    "docs/how-to/leave-rabbitmq.md": PARTS, "docs/how-to/majordomo.md": HOSTS, "docs/how-to/move-jobs.md": OWN,
    "docs/how-to/pause-a-sink.md": BROKER,
    "docs/how-to/pirates.md": HOSTS, "docs/how-to/production.md": OWN, "docs/how-to/publish-from-git.md": OWN,
    "docs/how-to/push-jobs.md": OWN, "docs/how-to/receive.md": PARTS,
    "docs/how-to/retention.md": ONE, "docs/how-to/roles.md": OWN, "docs/how-to/sync.md": OWN,
    "docs/how-to/titanic.md": HOSTS, "docs/how-to/typescript.md": PARTS, "docs/how-to/verify-signatures.md": PARTS,
    "docs/how-to/web-pages.md": OWN, "docs/reference/audit.md": BLOCKS, "docs/reference/events.md": ONE,
    "docs/reference/lake.md": BLOCKS, "docs/reference/log-lines.md": OWN, "docs/reference/rabbithub.md": BROKER,
    "examples/embedded-relay/README.md": BROKER, "examples/git-push-rebuilds-site/README.md": BROKER,
    "examples/publish-and-receive/README.md": PARTS, "examples/publish-in-your-transaction/README.md": PARTS,
    "examples/request-reply/README.md": HOSTS, "examples/tasks-by-amqp/README.md": BROKER, "sdk/README.md": PARTS,
}  # fmt: skip
"""Pages without a block that a run finds by its marker, each with the reason."""


def test_each_page_with_commands_is_run_or_listed_with_its_reason() -> None:
    """A new page appears in a run or here; a page that is run leaves this list."""
    with_blocks = {named(page): _FENCE.findall(page.read_text()) for page in PAGES}
    run_elsewhere = {
        page for page, words in with_blocks.items() if any(word.split()[0] in _RUN for word in words if word.strip())
    }
    executed = {named(page) for page in RUN_PAGES} | run_elsewhere

    assert {page for page, words in with_blocks.items() if words} - executed == set(NOT_RUN)


def test_the_pages_of_erasure_and_upkeep_are_run() -> None:
    """They were typed by hand, with ids replaced."""
    assert "docs/how-to/erase-a-customer.md" in {named(page) for page in RUN_PAGES}
    assert {"docs/how-to/erase-a-customer.md", "docs/how-to/lake-upkeep.md"} & set(NOT_RUN) == set()

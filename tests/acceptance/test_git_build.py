"""The build of examples/git-push-rebuilds-site: the newest commit, all of it or nothing, and nothing of the machine."""

import os
from pathlib import Path

import pytest

from tests.acceptance.git_example import EXAMPLE, Repository, run, site_environment


class Site:
    """A repository without a hub, and the site that is built from it."""

    def __init__(self, folder: Path) -> None:
        self.repository = Repository(folder, "http://127.0.0.1:1")
        self.repository.config("pushseconds", "0")
        self.root = folder / "www"

    def publish(self, text: str) -> str:
        commit = self.repository.commit(text)
        self.repository.push("--force", "main")
        return commit

    def rebuild(self, **event: str) -> str:
        return run(EXAMPLE / "rebuild-site", **site_environment(self.repository, self.root), **event)

    def page(self, page: str = "index") -> str:
        return (self.root / "current" / f"{page}.html").read_text()


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_pages_stand_between_header_and_footer_and_static_files_are_copied(site: Site):
    (site.repository.clone / "static" / "css").mkdir(parents=True)
    (site.repository.clone / "static" / "css" / "site.css").write_text("b {}")
    (site.repository.clone / "header.html").write_text("<html>")
    (site.repository.clone / "footer.html").write_text("</html>")
    commit = site.publish("hello")
    said = site.rebuild(HOOKWIRE_HEADER_CE_SUBJECT="refs/heads/main")
    files = sorted(str(path.relative_to(site.root / "current")) for path in (site.root / "current").rglob("*"))
    assert (said, site.page(), files) == (
        f"{commit} is online\n", "<html>hello</html>", ["css", "css/site.css", "index.html"],
    )  # fmt: skip


def test_the_newest_commit_is_built_whatever_the_event_says_and_twice_is_once(site: Site):
    site.publish("one")
    newest = site.publish("two")
    event = {"HOOKWIRE_HEADER_CE_NEWREV": "1" * 40}
    assert [site.rebuild(**event), site.rebuild(**event), site.page()] == [f"{newest} is online\n"] * 2 + ["two"]


def test_another_branch_does_not_touch_the_site(site: Site):
    site.publish("one")
    assert (site.rebuild(HOOKWIRE_HEADER_CE_SUBJECT="refs/heads/draft"), site.root.exists()) == ("", False)


def test_a_branch_that_is_gone_leaves_the_site_as_it_is(site: Site):
    site.publish("one")
    site.rebuild()
    run("git", "update-ref", "-d", "refs/heads/main", cwd=site.repository.bare)
    assert ("the site stays" in site.rebuild(), site.page()) == (True, "one")


def test_a_step_back_is_a_step_back(site: Site):
    first = site.publish("one")
    site.rebuild()
    site.publish("two")
    site.rebuild()
    run("git", "update-ref", "refs/heads/main", first, cwd=site.repository.bare)
    site.rebuild()
    assert site.page() == "one"


def test_a_link_in_the_repository_shows_nothing_of_the_machine(site: Site, tmp_path: Path):
    (tmp_path / "secret").write_text("hush")
    (site.repository.clone / "pages").mkdir()
    (site.repository.clone / "pages" / "leak.html").symlink_to(tmp_path / "secret")
    (site.repository.clone / "static").symlink_to(tmp_path)
    site.publish("one")
    site.rebuild()
    assert sorted(path.name for path in (site.root / "current").iterdir()) == ["index.html"]


def test_a_build_that_fails_leaves_the_site_and_no_rubbish(site: Site):
    site.publish("one")
    site.rebuild()
    site.publish("two")
    with pytest.raises(AssertionError):
        site.rebuild(PATH=str(broken_tar(site.root.parent)) + os.pathsep + os.environ["PATH"])
    assert (site.page(), sorted(path.name for path in site.root.iterdir())) == ("one", ["current", "lock", "releases"])


def broken_tar(folder: Path) -> Path:
    programs = folder / "bin"
    programs.mkdir()
    (programs / "tar").write_text("#!/bin/sh\nexit 1\n")
    (programs / "tar").chmod(0o755)
    return programs


def test_old_builds_are_cleared_away(site: Site):
    for number in range(7):
        site.publish(f"{number}")
        site.rebuild()
    assert (len(list((site.root / "releases").iterdir())), site.page()) == (5, "6")

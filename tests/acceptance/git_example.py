"""What the tests of examples/git-push-rebuilds-site share: real repositories with the example's hook."""

import os
import subprocess
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "git-push-rebuilds-site"


def git_environment() -> dict[str, str]:
    """Of this machine's git configuration and of a repository around us, nothing."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    who = {f"GIT_{role}_{what}": "tester" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    return {**inherited, **who, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "HOME": os.devnull}


def run(*command: str | Path, cwd: Path | None = None, stdin: bytes = b"", **more: str) -> str:
    """Run to the end; returns what was said on both outputs, fails with it."""
    done = subprocess.run(
        command, cwd=cwd, input=stdin, env={**git_environment(), **more}, capture_output=True, check=False, timeout=60
    )
    said = (done.stdout + done.stderr).decode(errors="replace")
    assert done.returncode == 0, said
    return said


class Repository:
    """A bare repository with the hook, and a clone to push from."""

    def __init__(self, folder: Path, url: str, name: str = "site") -> None:
        self.bare = folder / f"{name}.git"
        self.clone = folder / f"{name}.clone"
        run(EXAMPLE / "setup.sh", self.bare, url)
        run("git", "clone", "--quiet", self.bare, self.clone)
        run("git", "switch", "--quiet", "-c", "main", cwd=self.clone)

    def commit(self, text: str, page: str = "index") -> str:
        """Write a page and commit it; returns the id."""
        (self.clone / "pages").mkdir(exist_ok=True)
        (self.clone / "pages" / f"{page}.html").write_text(text)
        run("git", "add", "--all", cwd=self.clone)
        run("git", "commit", "--quiet", "--allow-empty", "-m", "a page", cwd=self.clone)
        return run("git", "rev-parse", "HEAD", cwd=self.clone).strip()

    def push(self, *refs: str) -> str:
        """Push; returns what git said, the hook's words included."""
        return run("git", "push", "--quiet", "origin", *(refs or ("main",)), cwd=self.clone)

    def hook(self, lines: bytes, **environment: str) -> str:
        """Run the hook with an input of its own, as git would."""
        return run("hooks/post-receive", cwd=self.bare, stdin=lines, GIT_DIR=".", **environment)

    def config(self, name: str, value: str) -> None:
        run("git", "config", f"hookwire.{name}", value, cwd=self.bare)

    def spooled(self) -> int:
        return len([path for path in (self.bare / "hookwire-spool").iterdir() if path.is_file()])


def site_environment(repository: Repository, root: Path) -> dict[str, str]:
    return {"SITE_REPOSITORY": str(repository.bare), "SITE_ROOT": str(root)}

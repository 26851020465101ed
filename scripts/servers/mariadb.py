"""MariaDB: the system package's server, with little memory, beside any that the machine runs already."""

import os
import pwd
import re
import shutil
import subprocess
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from scripts.servers.missing import MissingServerError
from scripts.servers.probe import Probe
from scripts.servers.process import Account, ServerFailedError, ServerProcess, let_pass

_PLACES = ("/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/opt/homebrew/bin")
_SHARES = ("/usr/share/mysql", "/usr/share/mariadb", "/usr/local/share/mysql", "/opt/homebrew/share/mysql")
_TABLES = ("mysql_system_tables.sql", "mysql_performance_tables.sql", "mysql_system_tables_data.sql")
_ACCOUNTS = ("mysql", "nobody")

_SETTINGS = {
    "innodb-buffer-pool-size": "32M",
    "innodb-log-file-size": "16M",
    "innodb-flush-log-at-trx-commit": "1",  # what was committed survives SIGKILL, as with its default
    "innodb-use-native-aio": "0",  # the kernel's contexts are few, and data may lie in memory
    "character-set-server": "latin1",  # like an old installation: no test may rely on the server's default
    "max-connections": "200",
    "bind-address": "127.0.0.1",
    "skip-name-resolve": "1",
}


class MariaServer(ServerProcess):
    """A MariaDB server on TCP loopback; `url` is that of its administrator, with a password, and of no database.

    MariaDB refuses to run as root, so root runs it as an unprivileged account, `mysql` if it exists.
    """

    software: ClassVar[str] = "MariaDB"
    port_names: ClassVar[tuple[str, ...]] = ("mariadb",)
    probe: ClassVar[Probe] = Probe(b"")  # it speaks first, and listens only when it is ready

    @property
    def data_dir(self) -> Path:
        """Return the server's data."""
        return self.folder / "data"

    @property
    def url(self) -> str:
        """Return the administrator's URL."""
        return f"mysql://hookwire:secret@127.0.0.1:{self.port}"

    @property
    def address(self) -> str:
        """Return `url`, under the name that all servers share."""
        return self.url

    @cached_property
    def version(self) -> str:
        """Return the program's version, such as "10.11.19"."""
        answer = subprocess.run([_program(), "--version"], capture_output=True, text=True, check=True)
        found = re.search(r"\d+\.\d+\.\d+", answer.stdout)
        return found[0] if found else answer.stdout.strip()

    @property
    def temporary_dir(self) -> Path:
        """Return the folder of its temporary tables: a starting server deletes all such files in a shared one."""
        return self.folder / "temporary"

    def _prepare(self) -> None:
        if self._account():
            let_pass(self.folder)
        self.temporary_dir.mkdir(mode=0o700, exist_ok=True)
        self._give(self.temporary_dir)
        if not self.data_dir.exists():
            self._make_data()

    def _give(self, folder: Path) -> None:
        """Let the server's account own `folder`, where it has an account of its own."""
        account = self._account()
        if account:
            os.chown(folder, account["user"], account["group"])

    def _make_data(self) -> None:
        """Create the data like `mariadb-install-db`, which needs programs of another package."""
        draft = self.folder / "data.draft"  # complete, or not there under its own name
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        self._give(draft)
        share = _share()
        statements = [
            "SET @auth_root_socket=NULL;", "SET @skip_auth_anonymous=1;", "CREATE DATABASE mysql;", "USE mysql;",
            *((share / name).read_text() for name in _TABLES), "FLUSH PRIVILEGES;",
            "GRANT ALL ON *.* TO 'hookwire'@'%' IDENTIFIED BY 'secret' WITH GRANT OPTION;\n",
        ]  # fmt: skip
        made = subprocess.run(
            [
                _program(), "--no-defaults", "--bootstrap", f"--datadir={draft}", f"--tmpdir={self.temporary_dir}",
                *_options(_SETTINGS),
            ],
            input="\n".join(statements), cwd=draft, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, **self._account(),
        )  # fmt: skip
        if made.returncode != 0:
            raise ServerFailedError(f"the data of {self.name} could not be made:\n{made.stdout}")
        draft.rename(self.data_dir)

    def _command(self) -> list[str]:
        places = {
            "datadir": str(self.data_dir),
            "tmpdir": str(self.temporary_dir),
            "port": str(self.port),
            "socket": "server.sock",  # in the data folder; a longer path could be too long for a socket
            "pid-file": "server.pid",
        }
        return [str(_program()), "--no-defaults", *_options(_SETTINGS | places)]

    def _account(self) -> Account:
        if os.geteuid() != 0:
            return Account()
        for name in _ACCOUNTS:
            try:
                entry = pwd.getpwnam(name)
            except KeyError:
                continue
            return Account(user=entry.pw_uid, group=entry.pw_gid, extra_groups=[])
        raise MissingServerError(f"MariaDB refuses to run as root: make one of the accounts {', '.join(_ACCOUNTS)}.")


def _options(settings: dict[str, str]) -> list[str]:
    return [f"--{name}={value}" for name, value in settings.items()]


def _program() -> Path:
    for place in _PLACES:
        if (found := Path(place) / "mariadbd").exists():
            return found
    raise MissingServerError("The system's MariaDB is missing: run scripts/install-servers.")


def _share() -> Path:
    for place in map(Path, _SHARES):
        if (place / _TABLES[0]).exists():
            return place
    raise MissingServerError("MariaDB's system tables are missing: run scripts/install-servers.")

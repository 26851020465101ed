"""The command `python -m scripts.servers`: real servers in the background, for `make servers` and `make demo`.

Exit codes: 0 done, 1 something failed or is not as it should be, 2 wrong use, 3 a server is missing or unreachable.
"""

import argparse
import fcntl
import json
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from scripts.servers.fleet import VARIABLES, known_servers, make_server
from scripts.servers.missing import MissingServerError
from scripts.servers.process import ServerFailedError, ServerProcess

_DEFAULT_BASE = Path(__file__).parents[2] / ".servers"
_VERBS = {
    "kill": "end a server's whole process tree by SIGKILL",
    "stop": "end a server in an orderly way",
    "pause": "freeze a server (SIGSTOP)",
    "resume": "let a frozen server go on (SIGCONT)",
    "restart": "stop a server and start it again on the same ports and data",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    arguments = _parser().parse_args(argv)
    try:
        with _one_at_a_time(arguments.dir):
            code: int = arguments.run(arguments)
            return code
    except MissingServerError as error:
        print(error, file=sys.stderr)
        return 3
    except ServerFailedError as error:
        print(error, file=sys.stderr)
        return 1


def up(arguments: argparse.Namespace) -> int:
    """Starts the named servers, or all, side by side; those that run already are left alone."""
    servers = [make_server(name, arguments.dir, outlives_us=True) for name in arguments.names or VARIABLES]
    with ThreadPoolExecutor(max_workers=len(servers)) as pool:
        for server, started in [(server, pool.submit(server.start)) for server in servers]:
            started.result()
            took = f"ready in {server.boot_seconds:.1f} s" if server.boot_seconds else "was running already"
            what = f"{server.software} {server.version}"
            print(f"{server.name:<11} {what:<19} {server.address}  {took}", flush=True)
    return 0


def down(arguments: argparse.Namespace) -> int:
    """Stops every server below the folder; with --delete their data goes too."""
    for server in known_servers(arguments.dir):
        was_running = server.pid is not None
        server.stop()
        if was_running:
            print(f"{server.name} stopped")
        if arguments.delete:
            shutil.rmtree(server.folder)
    return 0


def status(arguments: argparse.Namespace) -> int:
    """Prints the state of every server that was started; 1 unless all of them are ready."""
    rows = [_status_row(server) for server in known_servers(arguments.dir)]
    if arguments.json:
        print(json.dumps(rows, indent=2))
    elif not rows:
        print("No servers here yet; start them by: python -m scripts.servers up")
    else:
        for row in rows:
            print(f"{row['name']:<11} {row['state']:<7} {row['address']}  log: {row['log']}")
    return 0 if rows and all(row["state"] == "ready" for row in rows) else 1


def env(arguments: argparse.Namespace) -> int:
    """Prints one export line for each server that runs: eval "$(python -m scripts.servers env)"."""
    running = [server for server in known_servers(arguments.dir) if server.pid is not None]
    if not running:
        raise MissingServerError("No server is running; start them by: python -m scripts.servers up")
    for server in running:
        print(f"export {VARIABLES[server.name]}={shlex.quote(server.address)}")
    return 0


def act(arguments: argparse.Namespace) -> int:
    """Does one of the verbs to one server."""
    server = make_server(arguments.name, arguments.dir, outlives_us=True)
    if arguments.verb != "restart" and server.pid is None:
        raise MissingServerError(
            f"{server.name} is not running; start it by: python -m scripts.servers up {server.name}"
        )
    getattr(server, arguments.verb)()
    print(f"{server.name}: {arguments.verb} done")
    return 0


def _status_row(server: ServerProcess) -> dict[str, str | int | None]:
    if server.pid is None:
        state = "down"
    elif server.is_paused():
        state = "paused"
    else:
        state = "ready" if server.is_ready() else "silent"
    return {
        "name": server.name,
        "software": server.software,
        "version": server.version,
        "state": state,
        "address": server.address,
        "pid": server.pid,
        "log": str(server.log_path),
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m scripts.servers", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, run: Callable[[argparse.Namespace], int], what: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=what, description=run.__doc__ if run is not act else what)
        command.add_argument(
            "--dir", type=Path, default=_DEFAULT_BASE, help="where the servers live (default: .servers)"
        )
        command.set_defaults(run=run, verb=name)
        return command

    names = ", ".join(VARIABLES)
    add("up", up, "start servers, all or the named ones").add_argument(
        "names", nargs="*", metavar="NAME", type=_server_name, help=names
    )
    add("down", down, "stop all servers").add_argument(
        "--delete", action="store_true", help="delete their data as well"
    )
    add("status", status, "which servers are ready").add_argument("--json", action="store_true", help="as a JSON list")
    add("env", env, "print their addresses for the shell")
    for verb, what in _VERBS.items():
        add(verb, act, what).add_argument("name", metavar="NAME", type=_server_name, help=names)
    return parser


def _server_name(text: str) -> str:
    if text not in VARIABLES:
        raise argparse.ArgumentTypeError(f"there is no server '{text}', only {', '.join(VARIABLES)}")
    return text


@contextmanager
def _one_at_a_time(base: Path) -> Iterator[None]:
    """Lets commands on the same folder run one after the other."""
    base.mkdir(parents=True, exist_ok=True)
    with (base / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    sys.exit(main())

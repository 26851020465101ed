"""The failure simulation of the guide's chapter: a switch, off by default (LP-09)."""

import argparse
import os
import random
import time


def parser(text: str | None, **defaults: object) -> argparse.ArgumentParser:
    """Return an argument parser with the options that all programs have; their values are given by name."""
    arguments = argparse.ArgumentParser(description=text)
    for name, value in defaults.items():
        kind = type(value) if value is not None else str
        flag = f"--{name.replace('_', '-')}"
        if kind is bool:
            arguments.add_argument(flag, action="store_true")
        else:
            arguments.add_argument(flag, type=kind, default=value, help="default: %(default)s")
    return arguments


class WorkerFailures:
    """After its third request a worker crashes or is overloaded, each with a chance of one in five."""

    def __init__(self, are_on: bool) -> None:
        self.are_on = are_on
        self.requests = 0

    def strike(self) -> None:
        """Fail now and then."""
        self.requests += 1
        if not self.are_on or self.requests <= 3:
            return
        if random.randrange(5) == 0:
            print("simulating a crash", flush=True)
            os._exit(1)
        if random.randrange(5) == 0:
            print("simulating overload", flush=True)
            time.sleep(5)


class ServerFailures:
    """After three requests a server exits with a chance of one in three, else sleeps 2 s with the same chance."""

    def __init__(self, are_on: bool) -> None:
        self.are_on = are_on
        self.requests = 0

    def strike(self) -> None:
        """Fail now and then."""
        self.requests += 1
        if not self.are_on or self.requests <= 3:
            return
        if random.randrange(3) == 0:
            print("simulating a crash", flush=True)
            os._exit(1)
        if random.randrange(3) == 0:
            print("simulating overload", flush=True)
            time.sleep(2)

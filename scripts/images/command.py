"""Runs one command of another program to its end."""

from __future__ import annotations

import subprocess

__all__ = ["output"]


def output(*words: str, seconds: float = 60.0) -> str:
    """Return what the command prints; raises ``RuntimeError`` with its last words if it fails or takes too long."""
    try:
        ended = subprocess.run(words, capture_output=True, text=True, check=False, timeout=seconds)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"{' '.join(words)}: no end after {seconds:.0f} s") from None
    if ended.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: exit code {ended.returncode}: {(ended.stdout + ended.stderr)[-3000:]}")
    return ended.stdout.strip()

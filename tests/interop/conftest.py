"""Environments of public clients, made once for all tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.app.conftest import running_hub
from tests.interop.clients import npm_folder, python_environment

__all__ = ["clients_node", "clients_python", "running_hub"]


@pytest.fixture(scope="session")
def clients_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has the clients."""
    return python_environment(tmp_path_factory.mktemp("python") / "clients")


@pytest.fixture(scope="session")
def clients_node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which Node finds the clients."""
    return npm_folder(tmp_path_factory.mktemp("node") / "clients")

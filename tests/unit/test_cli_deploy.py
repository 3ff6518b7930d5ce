"""`hami deploy`: what it refuses before anything is deployed."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from command_line import assert_refused, run

Write = Callable[..., str]


@pytest.fixture
def no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this machine have no Ray."""
    for name in list(sys.modules):
        if name == "hami.ray" or name.startswith("hami.ray."):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ray", None)


def test_it_wants_to_be_told_where() -> None:
    assert_refused(run("deploy", "Pow"), "cli-deploy-where", "help: add `--ray`")


def test_without_ray_it_names_the_extra(no_ray: None) -> None:
    assert_refused(run("deploy", "Pow", "--ray"), "ray-missing-package", "pip install hami-core[ray]")


def test_a_folder_that_travels_must_exist() -> None:
    result = run("deploy", "Pow", "--ray", "--working-dir", "/no/such/folder")

    assert result.exit_code == 2
    assert "/no/such/folder" in result.stderr


def test_checking_and_showing_a_deployed_file_needs_no_ray(no_ray: None, write: Write) -> None:
    file = write('[a]\nbackend = "Pow"\n[a.ray]\nnum_replicas = 2\n')

    assert run("check", file).exit_code == 0
    assert run("show", file).exit_code == 0

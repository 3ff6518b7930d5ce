"""`deploy` waits for what Ray says, and for no longer than it was told."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from ray_cluster import free_port

import hami
from hami.ray import deploy as module
from hami.ray.deploy import Target, deploy
from hami.serve import Settings


def overview(status: str, message: str = "", **deployments: tuple[str, str]) -> Any:
    """Return what Ray Serve says of an application; a deployment is (status, message)."""
    told = {
        name: SimpleNamespace(status=SimpleNamespace(value=value), message=text)
        for name, (value, text) in deployments.items()
    }
    return SimpleNamespace(status=SimpleNamespace(value=status), message=message, deployments=told)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Hold what Ray Serve will say, one look after the other; the last goes on."""
    says: list[Any] = []

    def status() -> Any:
        now = says.pop(0) if len(says) > 1 else says[0]
        return SimpleNamespace(applications={} if now is None else {"default": now})

    monkeypatch.setattr(module.serve, "status", status)
    monkeypatch.setattr(module, "_PAUSE_S", 0.001)
    yield says


def wait(timeout_s: float = 60.0) -> None:
    module._wait_until_healthy(Target(timeout_s=timeout_s))


def failure(timeout_s: float = 60.0) -> hami.BuildError:
    with pytest.raises(hami.BuildError) as caught:
        wait(timeout_s)
    assert (caught.value.code, caught.value.where) == ("ray-deploy", "default")
    return caught.value


def test_it_waits_until_the_application_runs(told: list[Any]) -> None:
    told += [None, overview("DEPLOYING"), overview("RUNNING")]

    wait()

    assert len(told) == 1


def test_it_tells_which_deployment_failed_and_why(told: list[Any]) -> None:
    bad = overview("DEPLOY_FAILED", "it failed", good=("HEALTHY", "fine"), bad=("UNHEALTHY", "no model"))
    told += [overview("DEPLOYING"), bad]

    message = failure().message

    assert "DEPLOY_FAILED: it failed; `bad`: no model" in message
    assert "fine" not in message


def test_it_gives_up_on_what_never_finds_room(told: list[Any]) -> None:
    told += [overview("DEPLOYING", one=("UPDATING", "no resources"))]

    assert "DEPLOYING after 0 s: `one`: no resources" in failure(timeout_s=0).message


def test_it_gives_up_on_what_ray_does_not_know(told: list[Any]) -> None:
    told += [None]

    assert "Ray knows none of this name" in failure(timeout_s=0).message


def test_a_prefix_begins_with_a_slash() -> None:
    with pytest.raises(hami.ConfigError) as caught:
        deploy("Pow", Target(route_prefix="numbers"), Settings())

    assert (caught.value.code, caught.value.help) == ("ray-route-prefix", "write `--route-prefix /numbers`")


def test_a_cluster_that_is_not_there_is_an_error_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**options: Any) -> None:
        assert options["address"] == "auto"  # no environment variable names another
        raise ConnectionError("nobody there")

    monkeypatch.setattr(module.ray, "init", refuse)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(module.ray, "is_initialized", lambda: False)

    with pytest.raises(hami.ConfigError) as caught:
        deploy("Pow", Target(), Settings())

    assert caught.value.code == "ray-address"
    assert "nobody there" in caught.value.message
    assert "`ray start --head`" in caught.value.help


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_an_address_where_nobody_listens_is_refused_at_once(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.ray, "init", lambda **options: pytest.fail("Ray was asked, and would wait"))
    monkeypatch.setattr(module.ray, "is_initialized", lambda: False)
    address = f"{scheme}127.0.0.1:{free_port()}"
    monkeypatch.setenv("RAY_ADDRESS", address)

    for given in (None, address):
        with pytest.raises(hami.ConfigError) as caught:
            deploy("Pow", Target(address=given), Settings())
        assert caught.value.code == "ray-address"
        assert f"the cluster at `{address}` cannot be reached" in caught.value.message


def test_a_wrong_pipeline_is_refused_before_anybody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.ray, "init", lambda **options: pytest.fail("the cluster was asked"))

    with pytest.raises(hami.ConfigError) as caught:
        deploy("Pwo", Target(), Settings())

    assert caught.value.code == "plan-unknown-backend"


def test_the_folder_that_travels_is_told_to_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(module.ray, "init", lambda **options: asked.append(options))
    monkeypatch.setattr(module.ray, "is_initialized", lambda: False)

    module._connect(Target(address="local", working_dir="/project"))

    (options,) = asked
    assert (options["address"], options["runtime_env"]) == ("local", {"working_dir": "/project"})

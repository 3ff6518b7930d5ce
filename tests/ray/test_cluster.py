"""Applications on a cluster of two nodes. All of it is one file, so that one cluster runs at a time."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
from example_files import module_at
from example_readmes import check_output
from ray import serve
from ray_cluster import WAIT_S, RayCluster, eventually, is_healthy, ray_cluster, status_of
from ray_pipelines import CHAT, FRAGILE, HAS_TORCH, ORIENTATION, PARTS, SPREAD
from typer.testing import CliRunner

import hami
import hami.ray
from hami.cli import app as command

pytestmark = [pytest.mark.timeout(300), pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    with ray_cluster() as running:
        yield running


@pytest.fixture(scope="module")
def handles(cluster: RayCluster) -> Iterator[dict[str, Any]]:
    """Deploy what the tests need, all at once; gives the handles by name."""
    sources = {"spread": SPREAD, "parts": PARTS, "fragile": FRAGILE, "orientation": ORIENTATION}
    with pytest.MonkeyPatch.context() as patch:
        if HAS_TORCH:
            from hami.backends.llm import nodes

            patch.setattr(nodes, "load_engine", nodes.load_engine)  # what the chat imports changes it
            sources["chat"] = CHAT
        targets = [serve.RunTarget(hami.ray.app(one), name, f"/{name}") for name, one in sources.items()]
        yield dict(zip(sources, serve.run_many(targets), strict=True))


def infer(handle: Any, request: dict[str, Any], **keywords: Any) -> Any:
    return handle.infer.remote(request, **keywords).result(timeout_s=WAIT_S)


def nodes_of(handle: Any) -> set[str]:
    """Return the nodes on which replicas of `RayWhere` answer."""
    waiting = [handle.infer.remote({"data": 0}) for _ in range(16)]
    return {response.result(timeout_s=WAIT_S)["node"] for response in waiting}


def living_nodes() -> set[str]:
    return {each["NodeID"] for each in ray.nodes() if each["Alive"]}


# --- the same answers --------------------------------------------------------------------------------


def test_a_pipeline_in_deployments_answers_as_in_one_process(
    cluster: RayCluster, handles: dict[str, Any]
) -> None:
    pages = module_at("pages.py")
    pictures = [pages.turned(pages.drawn_page(), angle) for angle in (0, 90, 180, 270)]
    with hami.pipe(ORIENTATION) as pipe:
        wanted = [pipe({"data": picture})["result"] for picture in pictures]

    by_handle = [infer(handles["orientation"], {"data": picture})["result"] for picture in pictures]
    by_http = [cluster.post("/orientation/v1/pipeline", picture).json for picture in pictures]

    assert [answer["angle"] for answer in wanted] == [0, 90, 180, 270]
    for answers in (by_handle, by_http):
        assert [answer["angle"] for answer in answers] == [0, 90, 180, 270]
        assert np.allclose([a["score"] for a in answers], [a["score"] for a in wanted], atol=1e-5)


def test_a_node_elsewhere_tells_its_tensors_as_in_one_process(
    cluster: RayCluster, handles: dict[str, Any]
) -> None:
    with hami.pipe(ORIENTATION) as pipe:
        (wanted,) = pipe.ports()["classify"].inputs

    (told,) = cluster.get("/orientation/v2/models/classify").json["inputs"]

    assert (told["name"], told["datatype"]) == (wanted.name, "FP32")
    assert cluster.get("/orientation/v2/models/orientation/ready").status in (200, 404)
    assert cluster.get("/orientation/v2/health/ready").json == {"ready": True}


def test_the_example_prints_the_angles(
    cluster: RayCluster, handles: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    module_at("10_ray/run.py").show(handles["orientation"], cluster.port)

    check_output("10_ray", capsys.readouterr().out)


def test_a_handle_returns_what_the_nodes_wrote_and_nodes_may_write_into_arrays(
    handles: dict[str, Any],
) -> None:
    large = np.ones(100_000)

    changes = infer(handles["parts"], {"data": large}, node="picky")

    assert set(changes) == {"result", "twice"}
    assert (changes["result"] == 2).all()
    changes["result"][0] = 7
    assert (large == 1).all()


def test_requests_of_one_replica_share_a_batch(handles: dict[str, Any]) -> None:
    waiting = [handles["spread"].infer.remote({"data": number}) for number in range(32)]
    answers = [response.result(timeout_s=WAIT_S) for response in waiting]

    assert [answer["result"] for answer in answers] == list(range(32))
    assert max(answer["num_rows"] for answer in answers) > 1


def test_replicas_are_spread_over_both_nodes(handles: dict[str, Any]) -> None:
    eventually(lambda: nodes_of(handles["spread"]) == living_nodes())


# --- errors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("node", [None, "picky"])
def test_what_a_backend_raises_arrives_with_the_name_of_its_node(
    handles: dict[str, Any], node: str | None
) -> None:
    with pytest.raises(Exception, match="below zero") as caught:
        infer(handles["parts"], {"data": np.array([-1.0])}, node=node)

    assert type(caught.value.cause).__name__ == "CustomError"
    assert any("node `picky`, backend `RayPicky`" in note for note in caught.value.__notes__)


def test_errors_of_hami_arrive_as_their_own_types(cluster: RayCluster, handles: dict[str, Any]) -> None:
    with pytest.raises(hami.RequestError) as caught:
        infer(handles["parts"], {"dta": 1}, node="copy")
    assert caught.value.code == "request-missing-key"
    assert caught.value.http_status == 422
    assert any("node `copy`" in note for note in caught.value.__notes__)

    with pytest.raises(hami.DeadlineExceeded):
        infer(handles["spread"], {"data": 1, "deadline_ms": 0.001})

    refused = cluster.post("/parts/v1/nodes/copy", {"dta": 1})
    assert (refused.status, refused.json["code"]) == (422, "request-missing-key")
    raised = cluster.post("/parts/v1/nodes/picky", {"data": 3})
    assert (raised.status, raised.json["code"]) == (500, "serve-internal")


# --- streams -----------------------------------------------------------------------------------------


def test_partial_results_come_through_a_handle(handles: dict[str, Any]) -> None:
    stream = handles["parts"].options(stream=True).stream.remote({"data": 4}, node="count")

    assert list(stream) == [{"number": number} for number in range(4)]


@pytest.mark.skipif(not HAS_TORCH, reason="torch is not installed")
def test_a_language_model_elsewhere_streams_through_the_proxy(
    cluster: RayCluster, handles: dict[str, Any]
) -> None:
    openai = pytest.importorskip("openai", reason="openai is not installed")
    text = "a line of text, byte by byte"
    request = {"model": "answer", "prompt": "four", "temperature": 0.0, "max_tokens": 60}
    url = f"http://127.0.0.1:{cluster.port}/chat/v1"
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0, timeout=WAIT_S) as client:
        whole = client.completions.create(**request)
        chunks = list(
            client.completions.create(**request, stream=True, stream_options={"include_usage": True})
        )

    assert whole.choices[0].text == text
    assert "".join(chunk.choices[0].text for chunk in chunks if chunk.choices) == text
    assert len(chunks) > 5
    assert chunks[-1].usage == whole.usage


@pytest.mark.skipif(not HAS_TORCH, reason="torch is not installed")
def test_a_language_model_elsewhere_streams_through_a_handle(handles: dict[str, Any]) -> None:
    request = {"data": "four", "sampling": {"temperature": 0.0, "max_tokens": 60}}

    parts = list(handles["chat"].options(stream=True).stream.remote(request))

    assert len(parts) > 1
    assert "".join(parts) == infer(handles["chat"], request)["result"] == "a line of text, byte by byte"


# --- what Ray knows ----------------------------------------------------------------------------------


def test_fractions_of_gpus_and_autoscaling_reach_ray(handles: dict[str, Any]) -> None:
    assert status_of("spread").deployments["pipeline"].replica_states == {"RUNNING": 2}
    assert status_of("parts").deployments["picky"].replica_states == {"RUNNING": 1}
    assert eventually(lambda: ray.available_resources().get("GPU") == 0.75)


def test_figures_of_nodes_reach_the_metrics_of_ray(cluster: RayCluster, handles: dict[str, Any]) -> None:
    for _ in range(3):
        infer(handles["parts"], {"data": np.ones(1)}, node="copy")

    def figures() -> list[str]:
        lines = cluster.metrics().splitlines()
        return [
            line for line in lines if line.startswith("ray_hami_node_items_total{") and 'node="copy"' in line
        ]

    (line,) = eventually(figures)
    assert 'application="parts"' in line
    assert 'deployment="pipeline"' in line
    eventually(lambda: float(figures()[0].split()[-1]) >= 3)
    text = cluster.metrics()
    assert "ray_hami_node_run_seconds_bucket_total{" in text or "ray_hami_node_run_seconds_bucket{" in text


def test_a_replica_with_problems_is_replaced(handles: dict[str, Any]) -> None:
    first = infer(handles["fragile"], {"data": "ill"}, node="sick")["result"]

    def is_replaced() -> bool:
        with contextlib.suppress(ray.exceptions.RayActorError):
            return bool(infer(handles["fragile"], {"data": ""}, node="sick")["result"] != first)
        return False

    eventually(is_replaced)
    eventually(lambda: is_healthy("fragile"))


def test_a_client_that_goes_away_cancels_its_request(
    cluster: RayCluster, handles: dict[str, Any], tmp_path: Path
) -> None:
    def figure(name: str) -> int:
        return int(handles["fragile"].stats.remote().result(timeout_s=WAIT_S)[1][name])

    gate = tmp_path / "gate"
    running = handles["fragile"].infer.remote({"data": 1, "gate": str(gate)}, node="where")
    eventually(lambda: list(tmp_path.iterdir()))
    with cluster.connect() as client:
        client.request(
            "POST", "/fragile/v1/nodes/where", b'{"data": 2}', {"Content-Type": "application/json"}
        )
        eventually(lambda: figure("waiting") == 1)
    eventually(lambda: b'status="499"} 1.0' in cluster.get("/fragile/metrics").body)
    gate.touch()
    assert running.result(timeout_s=WAIT_S)["result"] == 1
    eventually(lambda: figure("dropped") == 1)  # it never reached the backend


def test_an_application_that_is_deleted_answers_what_runs(handles: dict[str, Any], tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    running = handles["fragile"].infer.remote({"data": 5, "gate": str(gate)}, node="where")
    eventually(lambda: list(tmp_path.iterdir()))

    serve.delete("fragile", _blocking=False)
    eventually(lambda: (found := status_of("fragile")) is None or found.status.value == "DELETING")
    gate.touch()

    assert running.result(timeout_s=WAIT_S)["result"] == 5


# --- the command line --------------------------------------------------------------------------------


def test_the_command_deploys_waits_and_prints_the_address(
    cluster: RayCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "numbers.toml"
    file.write_text('backend = "Pow"\n[ray]\nray_actor_options = {num_cpus = 0.1}\n', encoding="utf-8")
    secret = tmp_path / "token"
    secret.write_text("secret", encoding="utf-8")

    ended = CliRunner().invoke(
        command,
        [*_deploy(file, cluster), "--name", "numbers", "--route-prefix", "/n", "--token-file", str(secret)],
    )

    assert ended.exit_code == 0, ended.output
    assert f"hami: deployed `numbers` at http://127.0.0.1:{cluster.port}/n" in ended.stdout
    assert is_healthy("numbers")
    assert cluster.post("/n/v1/pipeline", {"data": 3}).status == 401
    assert cluster.get("/n/health").status == 200
    serve.delete("numbers")


def test_the_command_says_why_an_application_does_not_become_healthy(
    cluster: RayCluster, tmp_path: Path
) -> None:
    file = tmp_path / "gone.toml"
    options = "[ray]\nmax_constructor_retry_count = 1\n"
    file.write_text(f'backend = "OnnxInfer"\nmodel = "gone.onnx"\n{options}', encoding="utf-8")

    ended = CliRunner().invoke(command, [*_deploy(file, cluster), "--name", "gone"])

    assert ended.exit_code == 2
    assert "ray-deploy" in ended.stderr
    assert "gone.onnx" in ended.stderr
    serve.delete("gone")


def _deploy(file: Path, cluster: RayCluster) -> list[str]:
    return ["deploy", str(file), "--ray", "--address", cluster.address]


# --- a machine is lost: the last test, since there is one node less afterwards -------------------------


def test_a_node_is_killed_under_load_and_the_application_becomes_healthy_again(
    cluster: RayCluster, handles: dict[str, Any]
) -> None:
    num_clients = 8
    second = cluster.second.node_id
    eventually(lambda: second in nodes_of(handles["spread"]))
    answers: Counter[str] = Counter()
    lock = threading.Lock()
    is_over = threading.Event()

    def ask(client: int) -> None:
        number = 0
        while not is_over.is_set():
            number += 1
            data = client * 1_000_000 + number
            answer = cluster.post("/spread/v1/pipeline?output=result", {"data": data})
            kind = "right" if answer.status == 200 and answer.json == data else f"{answer.status}"
            with lock:
                answers[kind] += 1

    def num_right() -> int:
        with lock:
            return answers["right"]

    with ThreadPoolExecutor(num_clients) as pool:
        clients: list[Future[None]] = [pool.submit(ask, client) for client in range(num_clients)]
        try:
            eventually(lambda: num_right() > 50)
            cluster.kill_second()
            before = num_right()
            eventually(lambda: num_right() > before + 50)  # who is left answers
            eventually(lambda: second not in living_nodes())
            eventually(
                lambda: (
                    is_healthy("spread")
                    and status_of("spread").deployments["pipeline"].replica_states == {"RUNNING": 2}
                )
            )
            before = num_right()
            eventually(lambda: num_right() > before + 50)
        finally:
            is_over.set()
        for client in clients:
            client.result(WAIT_S)

    failed = sum(count for kind, count in answers.items() if kind != "right")
    assert failed <= num_clients, answers  # what was in the hands of the replica, at most one for each client
    assert os.getpid()
    assert nodes_of(handles["spread"]) == living_nodes()

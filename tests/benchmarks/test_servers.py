"""Check the benchmark of the server: its tables on known numbers, its requests, and one short run."""

from __future__ import annotations

import json
import shutil
from email.message import Message
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmark_files import load, run_benchmark

servers, servers_cases = load("servers"), load("servers_cases")

ROW = np.arange(1024, dtype=np.float32)


def row(system: str, requests_per_s: float, case: str = "raw", errors: int = 0) -> dict[str, Any]:
    figures = {
        "p50_ms": 2.0,
        "p99_ms": 4.0,
        "server_us": 99,
        "errors": errors,
        "of_bare": requests_per_s / 5000,
    }
    return {"system": system, "case": case, "connections": 16, "requests_per_s": requests_per_s, **figures}


def test_a_table_shows_medians_with_their_spread_and_the_sum_of_the_errors() -> None:
    rows = [row("hami", requests, errors=1) for requests in (3000, 1000, 2000)]

    text = servers.case_table(rows, ["hami", "mosec"], "raw", [16, 64])

    assert text.startswith("### raw body")
    assert (
        "| 16 | hami | 2,000 (1,000 to 3,000) | 2.0 (2.0 to 2.0) | 4.0 (4.0 to 4.0) | 99 (99 to 99) |" in text
    )
    assert "| 3 | 40 (20 to 60) % |" in text
    assert "mosec" not in text and "| 64 |" not in text


def test_without_a_model_there_is_no_share_of_the_bare_loop() -> None:
    assert servers.case_table([row("hami", 1, "identity")], ["hami"], "identity", [16]).endswith("| 0 |  |")


def test_targets_compare_with_the_best_peer_and_with_the_bare_loop() -> None:
    rows = [row("hami", 4500), row("mosec", 3000), row("ray", 300)]

    assert servers.targets(rows, ["hami", "mosec", "ray"], [16]) == (
        "raw body, 16 connections: hami answers 1.50x mosec (target 1.3), 90% of bare (target 85%)"
    )
    assert servers.targets(rows[:1], ["hami"], [16]).endswith("hami, 90% of bare (target 85%)")
    assert servers.targets(rows[1:], ["mosec", "ray"], [16]) == ""


def test_each_case_of_a_run_becomes_a_row_of_its_system() -> None:
    runs = [{"case": "hami", "round": 2, "cases": [{"case": "raw"}, {"case": "json"}]}]

    assert servers.flat(runs) == [
        {"case": "raw", "system": "hami", "round": 2},
        {"case": "json", "system": "hami", "round": 2},
    ]


def test_refused_requests_are_errors_and_no_answers() -> None:
    line = {"requests": 110, "duration_us": 2e6, "p50_us": 1500, "p99_us": 2500, "lost": 3, "refused": 10}
    output = f"Running 2s test\n{json.dumps(line)}\n"

    assert servers_cases.figures_of(output) == {
        "requests_per_s": 50.0,
        "p50_ms": 1.5,
        "p99_ms": 2.5,
        "errors": 13,
    }


def headers_of(**values: str) -> Message:
    message = Message()
    for name, value in values.items():
        message[name.replace("_", "-")] = value
    return message


def test_every_server_is_sent_the_same_numbers_in_its_own_form() -> None:
    for servers in servers_cases.SYSTEMS.values():
        for server in servers:
            for case, path in server.paths.items():
                post = servers_cases.FORMS[server.form, case](path, ROW)
                assert post.path == path
                if case == "json":
                    found = json.loads(post.body)
                    assert (found["inputs"][0] if "inputs" in found else found)["data"] == ROW.tolist()
                else:
                    assert post.body.endswith(ROW.tobytes())


@pytest.mark.parametrize(
    ("case", "answer", "headers"),
    [
        ("raw", ROW.tobytes(), {}),
        ("raw", b"{}" + ROW.tobytes(), {"Inference_Header_Content_Length": "2"}),
        ("json", json.dumps({"result": ROW.tolist()}).encode(), {}),
        ("json", json.dumps({"outputs": [{"data": ROW.tolist()}]}).encode(), {}),
    ],
)
def test_every_form_of_an_answer_is_read(case: str, answer: bytes, headers: dict[str, str]) -> None:
    assert servers_cases.row_of(case, answer, headers_of(**headers)).tolist() == ROW.tolist()


def test_a_wrong_answer_ends_the_benchmark(monkeypatch: Any) -> None:
    (server,) = servers_cases.SYSTEMS["mosec"]
    monkeypatch.setattr(servers_cases, "send", lambda address, post: (post.body, headers_of()))
    servers_cases.check("", server, "identity", None)

    monkeypatch.setattr(servers_cases, "send", lambda address, post: (bytes(4096), headers_of()))
    with pytest.raises(SystemExit, match="identity: a wrong answer"):
        servers_cases.check("", server, "identity", None)


@pytest.mark.timeout(200)
@pytest.mark.skipif(shutil.which("wrk") is None, reason="needs wrk: apt-get install wrk")
def test_the_benchmark_runs_from_end_to_end(tmp_path: Path) -> None:
    arguments = ["--peers", tmp_path, "--systems", "hami,mosec", "--connections", "2", "--seconds", "1"]
    printed, rows = run_benchmark("servers.py", *arguments, folder=tmp_path)

    assert f"mosec: no environment at {tmp_path / 'mosec'}, left out" in printed
    assert [case["case"] for row in rows for case in row["cases"]] == ["raw", "json", "identity"]
    assert all(case["errors"] == 0 and case["requests_per_s"] > 0 for row in rows for case in row["cases"])
    for case in servers.CASES.values():
        assert f"### {case}" in printed

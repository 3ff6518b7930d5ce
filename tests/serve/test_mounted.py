"""The application below a path of somebody else's, as a proxy of Ray Serve mounts it."""

from __future__ import annotations

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

import hami
from hami.serve import Service, Settings, create_app
from hami.serve.access import path_of


@pytest.mark.parametrize(
    ("path", "root", "own"),
    [
        ("/health", "", "/health"),
        ("/photos/health", "/photos", "/health"),
        ("/photos/v1/pipeline", "/photos", "/v1/pipeline"),
        ("/photoshealth", "/photos", "/photoshealth"),
        ("/health", "/photos", "/health"),
        ("/photos", "/photos", "/photos"),
    ],
)
def test_the_place_of_the_application_is_no_part_of_its_paths(path: str, root: str, own: str) -> None:
    assert path_of({"path": path, "root_path": root}) == own


def test_health_needs_no_token_wherever_the_application_is() -> None:
    pipe = hami.pipe("Pow")
    outer = FastAPI()
    outer.mount("/photos", create_app(Service(pipe, "one", Settings(token="secret"))))

    with pipe, TestClient(outer) as client:
        assert client.get("/photos/health").status_code == 200
        assert client.get("/photos/v2/health/ready").status_code == 200
        assert client.post("/photos/v1/pipeline", json={"data": 3}).status_code == 401
        answer = client.post(
            "/photos/v1/pipeline", json={"data": 3}, headers={"Authorization": "Bearer secret"}
        )
        assert answer.json() == 9


def test_a_longer_path_than_the_page_of_health_needs_the_token() -> None:
    pipe = hami.pipe("Pow")
    outer = FastAPI()
    outer.mount("/health", create_app(Service(pipe, "one", Settings(token="secret"))))

    with pipe, TestClient(outer) as client:
        assert client.post("/health/v1/pipeline", json={"data": 3}).status_code == 401

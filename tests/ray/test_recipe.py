"""What travels to a replica: the configuration, and what the program registered itself."""

from __future__ import annotations

import pickle
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ray import cloudpickle

import hami
from hami import backend, scheduler
from hami.config import load
from hami.plan import plan
from hami.ray.recipe import Recipe


def recipe_of(source: Any, base: str = "/") -> Recipe:
    return Recipe.of(load(source), plan(source), base)


def travelled(recipe: Recipe) -> Recipe:
    """Return what a replica gets."""
    arrived: Recipe = pickle.loads(cloudpickle.dumps(recipe))
    return arrived


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        file = folder / name.replace("_toml", ".toml").replace("_py", ".py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text), encoding="utf-8")


def test_a_replica_plans_what_was_checked_also_when_the_file_has_changed(tmp_path: Path) -> None:
    write(tmp_path, one_toml='[a]\nbackend = "Pow"\n')
    recipe = recipe_of(tmp_path / "one.toml")
    (tmp_path / "one.toml").unlink()

    (node,) = plan(travelled(recipe).load()).nodes

    assert node.name == "a"


def test_errors_in_a_replica_still_show_the_line(tmp_path: Path) -> None:
    write(tmp_path, one_toml='[a]\nbackend = "ReadFile"\nfolder = "x"\n')
    config = travelled(Recipe(load(tmp_path / "one.toml"))).load()

    with pytest.raises(hami.ConfigError) as caught:
        plan(config)

    assert caught.value.where.endswith("one.toml:3")


def test_paths_start_where_the_folder_is_on_that_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "here" / "project", one_toml='[a]\nbackend = "Pow"\n')
    recipe = recipe_of(tmp_path / "here" / "project" / "one.toml", base=str(tmp_path / "here"))
    assert recipe.load().directory == str(tmp_path / "here" / "project")

    (tmp_path / "here").rename(tmp_path / "there")
    monkeypatch.chdir(tmp_path / "there")  # what Ray has copied is where a replica runs

    assert travelled(recipe).load().directory == str(tmp_path / "there" / "project")


def test_a_class_of_the_program_travels_with_its_code(tmp_path: Path) -> None:
    write(
        tmp_path,
        program_py="""
        import sys, hami
        from hami.config import load
        from hami.plan import plan
        from hami.ray.recipe import Recipe
        from ray import cloudpickle

        @hami.register
        class Triple(hami.Backend):
            factor = hami.param(3)
            def forward(self, batch):
                for item in batch:
                    item["result"] = item["data"] * self.factor

        source = {"one": {"backend": "S[Triple, Identity]"}}
        open("recipe", "wb").write(cloudpickle.dumps(Recipe.of(load(source), plan(source), ".")))
        """,
        replica_py="""
        import pickle, hami
        from hami.plan import plan
        recipe = pickle.load(open("recipe", "rb"))
        with hami.Pipeline(plan(recipe.load())) as pipe:
            print(pipe({"data": 5})["result"])
        """,
    )
    for script in ("program.py", "replica.py"):
        ended = subprocess.run(
            [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
        assert ended.returncode == 0, ended.stderr

    assert ended.stdout.strip() == "15"


def test_functions_objects_conditions_and_schedulers_travel(monkeypatch: pytest.MonkeyPatch) -> None:
    class Held:
        def forward(self, batch: Any) -> None:
            for item in batch:
                item["result"] = item["data"]

    @hami.register
    class Backwards(hami.Scheduler):
        def key(self, item: Any) -> float:
            return 0.0

    hami.register("Function", lambda batch: None)
    hami.register("held", Held())
    hami.condition("big")(lambda item: item["data"] > 10)
    source = {"one": {"backend": "S[Function, Forward[held], (big)Identity]", "scheduler": "Backwards"}}
    recipe = travelled(recipe_of(source))

    monkeypatch.setattr(backend, "_classes", {})
    monkeypatch.setattr(backend, "_instances", {})
    monkeypatch.setattr(scheduler, "_classes", {})
    (node,) = plan(recipe.load()).nodes

    assert recipe.conditions == ("big",)
    assert node.params["scheduler"].__name__ == "Backwards"


def test_what_imports_name_does_not_travel(tmp_path: Path) -> None:
    write(tmp_path, one_toml='imports = ["./mine.py"]\n[a]\nbackend = "FromMine"\n')
    write(tmp_path, mine_py="import hami\n@hami.register\ndef FromMine(batch): pass\n")

    assert recipe_of(tmp_path / "one.toml").registered == b""


def test_what_belongs_to_hami_does_not_travel() -> None:
    assert recipe_of("S[Identity, Pow]").registered == b""


def test_what_a_replica_knows_already_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    hami.register("Known", lambda batch: None)
    recipe = travelled(recipe_of("Known"))
    before = backend.find("Known")

    recipe.load()

    assert backend.find("Known") is before


def test_a_class_that_does_not_pickle_is_named() -> None:
    import threading

    lock = threading.Lock()

    @hami.register("Locked")
    def locked(batch: Any) -> None:
        with lock:
            pass

    with pytest.raises(hami.ConfigError) as caught:
        recipe_of("Locked")

    assert (caught.value.code, caught.value.where) == ("ray-reference", "Locked")
    assert "`imports`" in caught.value.help


def test_a_parameter_that_does_not_pickle_is_an_error() -> None:
    import threading

    @hami.register
    class Holds(hami.Backend):
        thing = hami.param(None)

        def forward(self, batch: Any) -> None:
            pass

    with pytest.raises(hami.ConfigError) as caught:
        recipe_of({"one": {"backend": "Holds", "thing": threading.Lock()}})

    assert caught.value.code == "ray-reference"


def test_a_module_that_a_replica_has_not_is_an_error_with_a_remedy() -> None:
    missing = cloudpickle.dumps({"X": replace}).replace(b"dataclasses", b"datacl_sses")

    with pytest.raises(hami.BuildError) as caught:
        replace(recipe_of("Pow"), registered=missing).load()

    assert caught.value.code == "ray-reference"
    assert "datacl_sses" in caught.value.message

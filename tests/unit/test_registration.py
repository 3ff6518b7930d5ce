"""What `hami.register` accepts, and under which name."""

from __future__ import annotations

import importlib
import sys
import threading
import types
from pathlib import Path
from typing import Any

import pytest

from hami import backend
from hami.backend import (
    Backend,
    declarations,
    find,
    param,
    python_instances,
    register,
)
from hami.errors import ConfigError


class Doubled(Backend):
    """Double `data`.

    More about it.
    """

    batch_range = (1, 8)
    factor = param(2, min=1, doc="what to multiply by")
    path = param(type="path")

    def forward(self, batch: list[dict[str, Any]]) -> None:
        for item in batch:
            item["result"] = item["data"] * self.factor


class Tripled(Doubled):
    factor = param(3.0)
    extra = param("x", choices=["x", "y"])


class Bare:
    def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
        self.seen = (params, options)

    def forward(self, batch: list[dict[str, Any]]) -> None:
        pass


def function(batch: list[dict[str, Any]]) -> list[Any]:
    """Answer with the data."""
    return [item["data"] for item in batch]


def refusal(*arguments: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        register(*arguments)
    assert caught.value.code == "register-refused"
    return caught.value


# --- registration -------------------------------------------------------------------------------------------


def test_a_class_is_registered_under_its_own_name() -> None:
    assert register(Doubled) is Doubled

    declaration = find("Doubled")
    assert declaration is not None
    assert (declaration.doc, declaration.family, declaration.python) == ("Double `data`.", "python", Doubled)


def test_a_class_is_registered_under_another_name() -> None:
    assert register("Other")(Doubled) is Doubled
    assert register("ns::Third", Doubled) is Doubled

    assert find("Other") is not None
    assert find("ns::Third") is not None
    assert find("Doubled") is None


def test_a_function_is_registered() -> None:
    register(function)

    declaration = find("function")
    assert declaration is not None
    assert (declaration.doc, declaration.params, declaration.takes_any_key) == (
        "Answer with the data.",
        (),
        False,
    )


def test_an_object_is_registered_as_an_instance() -> None:
    instance = Doubled()
    register("doubler", instance)

    assert python_instances()["doubler"] is instance
    assert find("doubler") is None


def test_a_bare_class_takes_any_key() -> None:
    assert backend.declaration_of("Bare", Bare).takes_any_key


def test_a_class_with_parameters_or_without_init_takes_its_own_keys_only() -> None:
    class NoInit:
        def forward(self, batch: list[dict[str, Any]]) -> None:
            pass

    class Both(Bare):
        x = param(1)

    assert not backend.declaration_of("NoInit", NoInit).takes_any_key
    assert not backend.declaration_of("Both", Both).takes_any_key
    assert not backend.declaration_of("Plain", Backend).takes_any_key


def test_registering_the_same_thing_again_changes_nothing() -> None:
    register(Doubled)
    register(Doubled)

    assert find("Doubled") is not None


def test_a_reloaded_module_may_register_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "reloaded_backends.py"
    text = "import hami.backend as b\n@b.register\nclass R(b.Backend):\n    x = b.param({})\n"
    path.write_text(text.format(1))
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("reloaded_backends")
    path.write_text(text.format("'two'"))
    importlib.invalidate_caches()
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for cached in (tmp_path / "__pycache__").glob("*"):
        cached.unlink()
    importlib.reload(module)

    found = find("R")
    assert found is not None
    assert found.params[0].default == "two"


def test_another_class_of_a_taken_name_is_refused() -> None:
    register(Doubled)

    error = refusal("Doubled", Tripled)
    assert "already registered for" in error.message
    assert "Doubled" in error.message


def test_a_class_and_an_instance_cannot_share_a_name() -> None:
    register("thing", Bare)

    assert "already registered" in refusal("thing", Doubled()).message


@pytest.mark.parametrize("name", ["", "1x", "a b", "A[B]", "{x}"])
def test_a_backend_needs_a_name(name: str) -> None:
    assert "no name for a backend" in refusal(name, Doubled).message


def test_a_lambda_needs_a_name() -> None:
    assert "no name for a backend" in refusal(lambda batch: None).message


@pytest.mark.parametrize("name", ["IoCV0", "Sequential", "DecodeImage"])
def test_names_of_the_language_and_its_families_are_taken(name: str) -> None:
    assert "already a name of the language" in refusal(name, Doubled).message


def test_names_of_the_core_are_taken_once_it_is_loaded() -> None:
    backend.core_table()

    assert "already a name of the language" in refusal("Identity", Doubled).message


def test_a_name_of_the_core_taken_before_it_was_loaded_is_refused_when_it_is_used() -> None:
    backend.core_table.cache_clear()
    register("Identity", Doubled)

    with pytest.raises(ConfigError, match="already a name of the language"):
        find("Identity")


@pytest.mark.parametrize("target", [3, object(), int, types.SimpleNamespace(forward=3)])
def test_a_backend_needs_forward(target: object) -> None:
    assert "no method `forward`" in refusal("X", target).message


@pytest.mark.parametrize("batch_range", [(0, 1), (2, 1), (1.0, 2), (1, "x")])
def test_a_wrong_batch_range_is_refused(batch_range: Any) -> None:
    class Wrong(Backend):
        pass

    Wrong.batch_range = batch_range

    assert "`batch_range` of `Wrong`" in refusal(Wrong).message


@pytest.mark.parametrize("batch_range", [3, (1,), None, "12"])
def test_a_batch_range_of_another_form_is_refused(batch_range: Any) -> None:
    class Wrong(Backend):
        pass

    Wrong.batch_range = batch_range

    assert "`batch_range` of `Wrong`" in refusal(Wrong).message


def test_a_wrong_group_is_refused() -> None:
    class Wrong(Backend):
        group_by = "size"

    assert "`group_by` of `Wrong`" in refusal(Wrong).message


def test_many_threads_may_register_and_look_up() -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for step in range(30):
                name = f"Threaded{number}x{step}"
                register(name, type(name, (Backend,), {"forward": lambda self, batch: None}))
                assert find(name) is not None
                assert name in declarations()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []

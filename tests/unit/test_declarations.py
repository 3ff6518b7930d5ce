"""What backends declare, how names are looked up, and how instances are made."""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from hami import backend
from hami.backend import (
    Backend,
    Param,
    declarations,
    find,
    param,
    register,
)
from hami.errors import BuildError, ConfigError
from hami.instances import instantiate


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


# --- parameters ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("declared", "type"),
    [
        (param(1), "int"),
        (param(1.0), "float"),
        (param(True), "bool"),
        (param("x"), "str"),
        (param(Path("x")), "path"),
        (param([1]), "list"),
        (param((1,)), "list"),
        (param(None), "any"),
        (param({"a": 1}), "any"),
        (param(), "any"),
        (param(type=int), "int"),
        (param(type=Path), "path"),
        (param(type=dict), "any"),
        (param(None, type=float), "float"),
        (param(1, type="float"), "float"),
    ],
)
def test_the_type_follows_from_the_default(declared: Any, type: str) -> None:
    assert declared.param.type == type


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(ConfigError, match="`number` is no type"):
        param(type="number")


def test_a_parameter_without_default_is_required() -> None:
    assert Doubled.path == Param("path", "path", required=True)
    assert not Doubled.factor.required


def test_parameters_of_bases_come_first_unless_they_are_declared_anew() -> None:
    assert [one.name for one in backend.declared_params(Doubled)] == ["factor", "path"]
    assert [one.name for one in backend.declared_params(Tripled)] == ["path", "factor", "extra"]


def test_a_subclass_may_declare_a_parameter_anew() -> None:
    declaration = backend.declaration_of("Tripled", Tripled)

    assert declaration.find("factor") == Param("factor", "float", 3.0)


def test_a_subclass_may_turn_a_parameter_into_a_constant() -> None:
    class Fixed(Doubled):
        factor = 5

    assert [one.name for one in backend.declared_params(Fixed)] == ["path"]


def test_an_instance_outside_a_pipeline_has_the_defaults() -> None:
    instance = Doubled()

    assert instance.factor == 2
    with pytest.raises(AttributeError, match="has no value yet"):
        _ = instance.path


def test_a_value_set_on_an_instance_wins() -> None:
    instance = Doubled()
    instance.factor = 7

    assert instance.factor == 7
    assert Doubled().factor == 2


# --- lookup -------------------------------------------------------------------------------------------------


def test_the_core_and_python_are_one_table() -> None:
    register(Doubled)

    assert {"Identity", "OnnxInfer", "Doubled"} <= set(declarations())


def test_a_row_of_the_core_becomes_a_declaration() -> None:
    found = find("OnnxInfer")

    assert found is not None
    assert (found.family, found.extra) == ("onnxruntime", "onnx")
    assert found.find("provider") == Param(
        "provider", "str", "cpu", choices=("cpu", "cuda"), doc="the provider"
    )
    assert found.params[0].required


def test_an_unknown_name_is_not_found() -> None:
    assert find("NoSuch") is None


def test_a_family_is_imported_when_a_name_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = []

    def import_module(name: str) -> types.ModuleType:
        imported.append(name)
        cls = type("DecodeImage", (Doubled,), {"__module__": "hami.backends.image.decode"})
        register(cls)
        return types.ModuleType(name)

    backend.core_table()
    monkeypatch.delitem(backend._classes, "DecodeImage", raising=False)
    monkeypatch.setattr(importlib, "import_module", import_module)
    found = find("DecodeImage")

    assert imported == ["hami.backends.image"]
    assert found is not None
    assert (found.family, found.extra) == ("image", "image")


def test_a_missing_family_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def import_module(name: str) -> types.ModuleType:
        raise ModuleNotFoundError("No module named 'cv2'")

    backend.core_table()
    monkeypatch.delitem(backend._classes, "DecodeImage", raising=False)
    monkeypatch.setattr(importlib, "import_module", import_module)
    with pytest.raises(ConfigError) as caught:
        find("DecodeImage")

    assert caught.value.code == "family-missing"
    assert caught.value.help == "pip install hami-core[image]"


def test_a_missing_core_is_an_error_of_the_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hami._core", None)
    backend.core_table.cache_clear()

    with pytest.raises(BuildError) as caught:
        find("Identity")
    assert caught.value.code == "core-missing"


# --- instances ----------------------------------------------------------------------------------------------


def test_an_instance_gets_its_parameters_before_init() -> None:
    class Checked(Backend):
        factor = param(2)
        other = param("x")

        def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
            self.at_init = (self.factor, self.other, params, options)

    options = {"shared": 1}
    instance = instantiate(Checked, {"factor": 5}, options)

    assert instance.at_init == (5, "x", {"factor": 5}, options)


def test_each_call_makes_a_new_instance() -> None:
    assert instantiate(Bare, {}, {}) is not instantiate(Bare, {}, {})


def test_a_class_without_init_is_made_too() -> None:
    class NoInit:
        def forward(self, batch: list[dict[str, Any]]) -> None:
            pass

    assert instantiate(NoInit, {}, {}).forward([]) is None


def test_a_function_becomes_an_instance_with_its_traits() -> None:
    def many(batch: list[dict[str, Any]]) -> list[Any]:
        return batch

    many.batch_range = (2, 4)  # type: ignore[attr-defined]
    instance = instantiate(many, {}, {})

    assert instance.forward is many
    assert (instance.batch_range, instance.is_inline, instance.group_by) == ((2, 4), False, "shape")


def test_an_object_is_its_own_instance() -> None:
    thing = Bare()

    assert instantiate(thing, {}, {}) is thing


def test_what_user_code_raises_passes_through() -> None:
    class Failing(Backend):
        def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        instantiate(Failing, {}, {})


def test_a_backend_without_forward_says_so() -> None:
    with pytest.raises(NotImplementedError, match="`Backend` has no `forward`"):
        Backend().forward([])

"""Every error about a file says where: file and line, the line with carets, and what to do."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from hami.errors import ConfigError
from hami.plan import plan

Write = Callable[..., str]

NODE = '[a]\nbackend = "Identity"\n'
PAIR = '[a]\nbackend = "Identity"\nnext = "b"\n[b]\nbackend = "Identity"\n'
EACH = '[a]\nbackend = "ForEach(target=x)"\n[x]\nbackend = "Identity"\n'

# text, the line, what the carets are below, the code
PLACES = {
    "syntax": ('[a]\nbackend = "S[Identity"\n', 2, "[", "parse-unclosed-bracket"),
    "syntax of several lines": ('[a]\nbackend = """\nS[\n  A B]"""\n', 4, "B", "parse-missing-comma"),
    "syntax behind escapes": ('[a]\nbackend = "A(\\"\\\\t\\") B"\n', 2, "B", "parse-after-end"),
    "phases": ('[a]\nbackend = "S[Pow; Pow]"\n', 2, "S", "parse-phases"),
    "backend": ('[a]\nbackend = "S[Identity, Nope]"\n', 2, "Nope", "plan-unknown-backend"),
    "children": ('[a]\nbackend = "With[Pow]"\n', 2, "With", "plan-num-children"),
    "argument": ('[a]\nbackend = "Add(1, tims=3)"\n', 2, "tims", "plan-unknown-argument"),
    "argument twice": ('[a]\nbackend = "Add(1, value=3)"\n', 2, "value", "plan-duplicate-argument"),
    "too many": ('[a]\nbackend = "Add(1, 2, 3)"\n', 2, "3", "plan-too-many-arguments"),
    "argument value": ('[a]\nbackend = "Add(one)"\n', 2, "one", "plan-bad-value"),
    "missing parameter": ('[a]\nbackend = "S[OnnxInfer]"\n', 2, "OnnxInfer", "plan-missing-parameter"),
    "placeholder": ('[a]\nbackend = "Add({on})"\n', 2, "{on}", "expand-unset-parameter"),
    "IoC": ('[a]\nbackend = "IoC[Pow]"\n', 2, "IoC", "expand-ioc-phases"),
    "IoC twice": ('[a]\nbackend = "IoC[DI[Pow], Block[Pow]; Pow]"\n', 2, "Block", "expand-ioc-duplicate"),
    "instance": ('[a]\nbackend = "Forward[node.b]"\n', 2, "node.b", "expand-unknown-instance"),
    "reflect": ('[a]\nbackend = "Reflect"\n', 2, "Reflect", "expand-bad-form"),
    "proxy": ('[a]\nnode_entrypoint = "S[BackendProxy]"\n', 2, "BackendProxy", "expand-unset-parameter"),
    "operator": ('[a]\nbackend = "List[ForEach(target=b)]"\n', 2, "ForEach", "plan-nested-operator"),
    "key": (NODE + "mox = 3\n", 3, "mox", "config-unknown-key"),
    "shared key": ("mox = 3\n" + NODE, 1, "mox", "config-unknown-key"),
    "value": (NODE + "max = 0\n", 3, "0", "plan-bad-value"),
    "inherited value": ('max = "many"\n' + NODE, 1, '"many"', "plan-bad-value"),
    "min": (NODE + "min = 4\nmax = 2\n", 3, "4", "plan-bad-value"),
    "inline table": ('a = {backend = "Identity", max = 0}\n', 1, "0", "plan-bad-value"),
    "dotted key": ('a.backend = "Nope"\n', 1, "Nope", "plan-unknown-backend"),
    "no backend": ("max = 3\n[a]\nmin = 1\n", 2, "a", "plan-missing-backend"),
    "next": ('[a]\nbackend = "Pow"\nnext = "c"\n', 3, "c", "plan-unknown-next"),
    "next in a list": ('[a]\nbackend = "Pow"\nnext = ["c"]\n', 3, '["c"]', "plan-unknown-next"),
    "next twice": (PAIR.replace('"b"\n', '"b, b"\n'), 3, "b", "plan-duplicate-next"),
    "cycle": (PAIR + 'next = "a"\n', 3, '"b"', "plan-cycle"),
    "map": (PAIR + 'map = "a[result]"\n', 6, "result", "plan-bad-map"),
    "map source": (PAIR + 'map = "c[result:x]"\n', 6, "c", "plan-unknown-map-source"),
    "or": ('[a]\nbackend = "Pow"\nor = true\n', 1, "a", "plan-or-without-predecessor"),
    "unreachable": (PAIR + '[c]\nbackend = "Pow"\n', 6, "c", "plan-unreachable-node"),
    "outputs": (PAIR.replace('"b"', '"b,c"') + '[c]\nbackend = "Pow"\n', 6, "c", "plan-several-outputs"),
    "output": ('output = "b"\n' + NODE, 1, '"b"', "plan-bad-output"),
    "fanout": ('fanout = "root"\n' + NODE, 1, '"root"', "plan-bad-value"),
    "entrypoint": ('entrypoint = "S[Pow]"\n' + NODE, 1, '"S[Pow]"', "plan-bad-entrypoint"),
    "target": (EACH.replace("=x", "=y"), 2, '"ForEach(target=y)"', "plan-unknown-target"),
    "enters": (EACH + '[b]\nbackend = "Pow"\nnext = "x"\n', 7, '"x"', "plan-enters-subgraph"),
    "node name": ('[input]\nbackend = "Pow"\n', 1, "input", "config-node-name"),
    "imports": ("imports = 3\n" + NODE, 1, "3", "config-imports"),
    "import": ('imports = ["./no.py"]\n' + NODE, 1, '["./no.py"]', "config-import"),
    "variable": ('[a]\nbackend = "${HAMI_NO_SUCH}"\n', 2, '"${HAMI_NO_SUCH}"', "config-unset-variable"),
    "twice": (NODE + NODE, 3, "[a]", "config-duplicate"),
    "toml": ("[a]\nbackend = Pow\n", 2, "P", "config-toml"),
    "tables": ('[[a]]\nbackend = "Pow"\n', 1, "a", "config-array-of-tables"),
}


@pytest.mark.parametrize("case", PLACES.values(), ids=PLACES)
def test_an_error_about_a_file_has_its_place(case: tuple[str, int, str, str], write: Write) -> None:
    text, line, below, code = case
    with pytest.raises(ConfigError) as caught:
        plan(write(text))
    error = caught.value

    assert error.code == code
    assert re.fullmatch(rf"pipeline\.toml:{line}(:\d+)?", error.where)
    source, carets = error.excerpt.split("\n")
    assert source == f"{line} | {text.splitlines()[line - 1]}"
    assert source[carets.index("^") : carets.rindex("^") + 1] == below
    assert error.help
    assert "  " not in error.message
    assert error.message[0] == "`" or error.message[0].islower()
    assert not error.message.endswith(".")

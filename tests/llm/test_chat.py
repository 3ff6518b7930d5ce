"""Chat templates: what models' templates need, and that one of a stranger can do no harm."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("jinja2", reason="needs jinja2, which is not installed")

from hami.backends.llm.chat import ChatTemplate
from hami.errors import RequestError

CHAT = [{"role": "user", "content": "hi"}]


def render(text: str, messages: Any = CHAT, **names: Any) -> str:
    return ChatTemplate(text, {"bos_token": "<s>", "eos_token": "</s>"}).render(messages, **names)


@pytest.mark.parametrize(
    ("template", "wanted"),
    [
        ("{{ bos_token }}{{ messages[0]['content'] }}{{ eos_token }}", "<s>hi</s>"),
        ("{% if add_generation_prompt %}go{% endif %}", "go"),
        ("{% for m in messages %}\n    {{- m.role }}\n{% endfor %}", "user\n"),
        ("  {% if true %}\nx\n  {% endif %}\n", "x\n"),
        ("{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "01"),
        (
            "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = 7 %}{% endfor %}{{ ns.n }}",
            "7",
        ),
        ("{{ messages[0] | tojson }}", '{"role": "user", "content": "hi"}'),
        ("{{ {'a': '<ä>'} | tojson }}", '{"a": "<ä>"}'),
        ("{{ [1] | tojson(indent=2) }}", "[\n  1\n]"),
        ("{{ tools is none }} {{ documents is none }}", "True True"),
        ("{{ messages[0].content.upper() ~ '!' * 3 }}", "HI!!!"),
        ("{{ messages[0]['name'] is defined }}", "False"),
        ("{{ strftime_now('%Y') | length }}", "4"),
        ("{{ 2 * 3 }} {{ 2 ** 5 }} {{ 7 % 4 }} {{ [1, 2] + [3] }}", "6 32 3 [1, 2, 3]"),
        ("{{ '%s is %d' % ('x', 3) }} {{ '%c' % 95 }}", "x is 3 _"),
        ("{{ messages[-1].content.split('i')[0] }}", "h"),
    ],
)
def test_what_templates_use_is_there(template: str, wanted: str) -> None:
    assert render(template) == wanted


def test_further_names_reach_the_template() -> None:
    tools = [{"name": "f"}]
    assert (
        render("{{ tools[0].name }} {{ enable_thinking }}", tools=tools, enable_thinking=False) == "f False"
    )


def test_a_template_may_refuse_the_messages() -> None:
    with pytest.raises(RequestError, match="roles must alternate") as caught:
        render("{{ raise_exception('roles must alternate') }}")
    assert caught.value.code == "llm-chat" and caught.value.http_status == 422


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__ }}{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.__init__.__globals__ }}",
        "{{ raise_exception.__globals__['__builtins__'] }}",
        "{{ self._TemplateReference__context }}{{ cycler.__init__.__globals__.os.popen('id') }}",
        "{{ '{0.__class__}'.format('') }}",
        "{{ messages | attr('__class__') }}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update(role='system') }}",
        "{{ messages.clear() }}",
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}{{ os }}",
        "{{ undefined.attribute }}",
        "{{ 1 / 0 }}",
        "{{ messages[5].content }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    ],
)
def test_a_template_cannot_reach_out_of_its_box(template: str) -> None:
    messages = [dict(CHAT[0])]
    try:
        found = render(template, messages)
    except RequestError as error:
        assert error.code == "llm-chat"
    else:  # what is hidden is empty
        assert found in {"", "{0.__class__}"}
    assert messages == CHAT


@pytest.mark.parametrize(
    "template",
    [
        "{{ 'x' * 10**9 }}",
        "{{ [0] * 1000000000 }}",
        "{{ 10**9 * 'x' }}",
        "{{ 9 ** 9 ** 9 ** 9 }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ '%*d' % (1000000000, 1) }}",
        "{% for i in range(1000) %}{{ 'x' * 1000000 }}{% endfor %}",
        "{% for i in range(1000000000) %}{% endfor %}",
    ],
)
def test_a_template_cannot_fill_the_memory(template: str) -> None:
    with pytest.raises(RequestError) as caught:
        render(template)
    assert caught.value.code == "llm-chat"


@pytest.mark.parametrize("template", ["{% for %}", "{{", "{% if x %}", "{% unknown %}"])
def test_a_template_that_cannot_be_compiled_is_refused(template: str) -> None:
    with pytest.raises(RequestError) as caught:
        render(template)
    assert caught.value.code == "llm-chat"


@pytest.mark.parametrize(
    "messages", [[], "hi", None, 3, [3], [{}], [{"content": "x"}], [{"role": 1}], {"role": "user"}]
)
def test_what_is_no_chat_is_refused_with_an_example(messages: Any) -> None:
    with pytest.raises(RequestError) as caught:
        render("x", messages)
    assert caught.value.code == "llm-chat" and '"role": "user"' in caught.value.help


def test_messages_are_data_and_no_template() -> None:
    messages = [{"role": "user", "content": "{{ 1 + 1 }}{% raw %}"}]
    assert render("{{ messages[0].content }}", messages) == "{{ 1 + 1 }}{% raw %}"
    assert json.loads(render("{{ messages | tojson }}", messages)) == messages

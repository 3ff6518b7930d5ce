"""`hami.LLM` and its like are there without cost, and say what to install where their packages are not."""

from __future__ import annotations

import subprocess
import sys


def run(code: str) -> str:
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=50)
    return done.stdout + done.stderr


def test_importing_hami_imports_neither_torch_nor_tokenizers() -> None:
    code = "import sys, hami; print({'torch', 'tokenizers', 'jinja2'} & set(sys.modules))"
    assert run(code).strip() == "set()"


def test_a_missing_package_names_the_extra() -> None:
    for name in ("LLM", "AsyncLLM"):
        output = run(f"import sys; sys.modules['tokenizers'] = None\nimport hami\nhami.{name}")
        assert "hami.errors.ConfigError: family-missing" in output
        assert "pip install hami-core[llm]" in output


def test_parameters_need_no_package() -> None:
    code = "import sys; sys.modules['torch'] = None\nimport hami\nprint(hami.SamplingParams(n=2).n)"
    assert run(code).strip() == "2"

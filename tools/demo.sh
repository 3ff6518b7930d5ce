#!/usr/bin/env bash
# Read the text of real pictures: fetch the models of the OCR example, then run it.
#
# Usage: demo.sh VENV
set -euo pipefail
cd "$(dirname "$0")/../examples/01_ocr"

python=$OLDPWD/$1/bin/python
printf '==> fetching the models\n'
"$python" fetch_models.py
printf '==> reading the pictures\n'
"$python" run.py

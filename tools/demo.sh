#!/usr/bin/env bash
# Read the text of real pictures: fetch the models of the OCR example, then run it.
#
# Usage: demo.sh VENV
set -euo pipefail
cd "$(dirname "$0")/.."

python=$1/bin/python
printf '==> fetching the models\n'
"$python" examples/fetch_models.py
printf '==> reading text from pictures (examples/01_ocr)\n'
"$python" examples/01_ocr/run.py

"""`python -m hami` is the command `hami`."""

from hami.cli import app

app(prog_name="hami")

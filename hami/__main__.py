"""`python -m hami` is the command `hami`."""

from hami.cli import main

main()

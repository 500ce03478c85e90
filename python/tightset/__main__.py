"""`python -m tightset` is the command line."""

from tightset.cli import main

main()

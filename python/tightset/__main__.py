"""`python -m tightset` is the command line."""

from tightset.cli import main

if __name__ == "__main__":
    main()

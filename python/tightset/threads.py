"""How many threads calls use.

In order: the argument ``n_threads`` of a call, `set_num_threads`, the environment variables
``TIGHTSET_NUM_THREADS``, ``RAYON_NUM_THREADS`` and ``OMP_NUM_THREADS``, and what the machine and its
container allow this process. Small calls always run on the calling thread. Results do not depend on it.
"""

from __future__ import annotations

from tightset import _core
from tightset._inputs import as_integer


def get_num_threads() -> int:
    """Return the threads that calls use unless they say otherwise.

    Raises ValueError, naming the variable, when the environment holds something that is not a number of
    threads.

    Examples
    --------
    >>> import tightset as ts
    >>> ts.get_num_threads() >= 1
    True
    """
    return _core.default_threads()


def set_num_threads(n_threads: int | None) -> None:
    """Set the threads that calls use unless they say otherwise, at any time.

    Parameters
    ----------
    n_threads
        From 1 to 1024, or None to go back to the environment and the machine.

    Examples
    --------
    >>> import tightset as ts
    >>> ts.set_num_threads(2)
    >>> ts.get_num_threads()
    2
    >>> ts.set_num_threads(None)
    """
    _core.set_default_threads(None if n_threads is None else as_integer(n_threads, "n_threads", 1, 1024))

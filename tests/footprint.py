"""Peak memory of a call beyond its input and output, measured in a process of its own.

Run as a script it makes the input, calls once and prints the bytes; `peak_beyond` does that from elsewhere.
The peak is the kernel's VmHWM where there is one: `ru_maxrss` has the same meaning, but Linux carries that
of the parent over to a new program, so that a large pytest process would hide what its child does.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import numpy as np

LAYOUTS = ("float32", "float64", "float16", "bfloat16", "fortran")
N_LABELS = 1000
STATUS = Path("/proc/self/status")


def peak_beyond(call, layout, n_bytes):
    """Return the bytes that `call` needed at its peak beyond its input, of `n_bytes`, and its output."""
    run = [sys.executable, __file__, call, layout, str(n_bytes)]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def peak():
    """Return the most memory this process has had, in bytes."""
    if STATUS.exists():
        return _status("VmHWM")
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _status(field):
    lines = STATUS.read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(field))


def made(layout, n_bytes):
    """Return logits of about that many bytes; made block by block, for a peak that is theirs alone."""
    if layout == "bfloat16":
        import ml_dtypes

        dtype = np.dtype(ml_dtypes.bfloat16)
    else:
        dtype = np.dtype("float32" if layout == "fortran" else layout)
    n = n_bytes // (N_LABELS * dtype.itemsize)
    logits = np.empty((n, N_LABELS), dtype, order="F" if layout == "fortran" else "C")
    rng = np.random.default_rng(0)
    if layout == "fortran":
        for column in range(N_LABELS):
            logits[:, column] = rng.standard_normal(n, dtype=np.float32)
    else:
        for start in range(0, n, 250):
            part = logits[start : start + 250]
            part[...] = rng.standard_normal(part.shape, dtype=np.float32)
    return logits


def main():
    import tightset as ts

    call, layout, n_bytes = sys.argv[1], sys.argv[2], int(sys.argv[3])
    logits = made(layout, n_bytes)
    labels = np.zeros(len(logits), np.int64)
    calls = {
        "label_scores": lambda: ts.label_scores(logits, labels, "aps"),
        "entropy": lambda: ts.entropy(logits),
        # What the measurement must not miss: a copy of the whole.
        "copy": lambda: (logits + logits)[:, 0].copy(),
    }
    before = peak()
    result = calls[call]()
    print(max(0, peak() - before - result.nbytes))


if __name__ == "__main__":
    main()

"""Find operations of vectors that are functions of their own: ``python tests/inlined.py library``.

Kernels are made of small functions that must all be inlined. One that is not passes its vectors through
memory, and its kernel took 48 times as long in an experiment. Nothing else says so: results are the same.

Released libraries have no symbols, so the functions are known by their machine code: called, short, without a
jump, and with vectors in operations that do more than move them. A kernel has loops or checks, hence jumps.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

# Instructions of a function at most: the longest operation, an exponential, has thirty.
MOST = 60
OBJDUMP = shutil.which("objdump") or shutil.which("llvm-objdump")


def is_quick(library: Path) -> bool:
    """Tell whether a library is a development build, by a check that released ones leave out."""
    return b"attempt to multiply with overflow" in library.read_bytes()


def is_vector(operation: str, operands: str) -> bool:
    """Tell whether an instruction computes with vectors. Moves do not, nor operations on one number."""
    if operation.startswith(("mov", "vmov", "vzero")):
        return False
    in_memory = re.search(r"xmmword ptr \[(?!rip)", operands, re.IGNORECASE)
    is_single = operation.endswith(("ss", "sd"))
    return bool(re.search("[yz]mm", operands) or (in_memory and not is_single))


def outlined(assembly: str) -> list[str]:
    """Return the functions of x86-64 assembly, in Intel's form, that are operations of vectors."""
    lines = [line.strip() for line in assembly.splitlines()]
    places = {line.partition(":")[0]: i for i, line in enumerate(lines)}
    called = set(re.findall(r"\tcall\s+(?:0x)?([0-9a-f]+)\b", assembly))
    found = []
    for start in sorted(called & places.keys()):
        body = []
        for line in lines[places[start] :][:MOST]:
            operation, *operands = line.partition(":")[2].split(maxsplit=1) or ["nop"]
            body.append((operation, "".join(operands)))
            if operation.startswith(("j", "call", "ret")):
                break
        if body[-1][0].startswith("ret") and any(is_vector(*instruction) for instruction in body):
            found.append(f"{start}: " + "; ".join(" ".join(instruction) for instruction in body))
    return found


def outlined_in(library: Path) -> list[str]:
    """Return the operations of vectors that are functions in a library for x86-64."""
    assert OBJDUMP
    command = [OBJDUMP, "-d", "-M", "intel", "--no-show-raw-insn", "--section=.text", library]
    return outlined(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


if __name__ == "__main__":
    sys.exit("\n".join(outlined_in(Path(sys.argv[1]))) or 0)

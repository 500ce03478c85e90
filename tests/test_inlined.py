"""The compiled core has no operation of vectors that is a function of its own."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import pytest

import inlined
from tightset import _core

# An operation of vectors, a copy of memory, a function of a number, and a kernel, which has a loop.
SAMPLE = """
    1000:	call   2000 <a>
    1005:	call   0x2020
    100a:	call   2040 <c>
    100f:	call   2060 <d>
    1014:	ret
    2000:	mov    rax,rdi
    2003:	{load}
    2007:	{add}
    200b:	{store}
    2010:	ret
    2020:	movups xmm0,XMMWORD PTR [rsi]
    2023:	movups XMMWORD PTR [rdi],xmm0
    2026:	ret
    2040:	xorps  xmm1,XMMWORD PTR [rip+0x10]        # 3000
    2044:	addsd  xmm0,xmm1
    2048:	ret
    2060:	vaddps zmm0,zmm0,ZMMWORD PTR [rsi]
    2066:	jne    2060 <d>
    2068:	ret
"""


@pytest.mark.parametrize(
    ("load", "add", "store"),
    [
        ("vmovaps zmm0,ZMMWORD PTR [rsi]", "vaddps zmm0,zmm0,zmm1", "vmovaps ZMMWORD PTR [rdi],zmm0"),
        ("nop", "vaddps ymm0, ymm0, ymmword ptr [rsi]", "vmovaps ymmword ptr [rdi], ymm0"),
        ("movaps xmm0,XMMWORD PTR [rsi]", "addps  xmm0,XMMWORD PTR [rdx]", "movaps XMMWORD PTR [rdi],xmm0"),
        ("nop", "vbroadcastss ymm0,xmm0", "vmovaps YMMWORD PTR [rdi],ymm0"),
    ],
)
def test_functions_of_vectors_are_found(load, add, store):
    (found,) = inlined.outlined(SAMPLE.format(load=load, add=add, store=store))
    assert found.startswith("2000: ")
    assert inlined.outlined(SAMPLE.format(load=load, add="vmovaps zmm1,zmm0", store=store)) == []


@pytest.mark.skipif((sys.platform, platform.machine()) != ("linux", "x86_64"), reason="reads code of x86-64")
@pytest.mark.skipif(inlined.OBJDUMP is None, reason="needs objdump")
def test_operations_of_vectors_are_inlined():
    library = Path(_core.__file__)
    if inlined.is_quick(library):
        pytest.skip("a development build, which inlines less: `maturin develop --release` makes the other")
    assert inlined.outlined_in(library) == []

"""Other libraries take minutes: one turn of them."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session", params=[0])
def turn(request):
    """Take the place of the several turns of other calls."""
    return request.param

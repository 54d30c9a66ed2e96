# -*- coding: latin-1 -*-
"""A coding line and annotations."""
from __future__ import annotations

from typing import Optional


def typed(count: int = 1, name: Optional[str] = None, *, flag: bool = False) -> dict[str, int]:
    """With annotations."""
    return {"count": count, "name": name, "flag": flag}

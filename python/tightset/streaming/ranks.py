"""The search for order statistics over several readings, by the leading bits of the scores.

A slot is a range of keys (scores as integers, see ``src/radix.rs``) of one candidate that holds a rank. A
reading counts the next bits in every slot, or keeps the keys themselves once they are fewer than the counts
would be. What it costs is set by a number of bytes and does not grow with the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tightset.streaming.split import Part

_WHOLE = 64
_MOST_BITS = 16
_LEAST_BITS = 4


@dataclass(slots=True)
class Slot:
    """Keys from `base` on, 2^width of them, of one candidate: how many scores there are, how many before."""

    candidate: int
    base: int = 0
    width: int = _WHOLE
    count: int | None = None
    below: int = 0


@dataclass(slots=True)
class RankSearch:
    """The slots in which ranks of some candidates, on one part of the rows, are looked for.

    Attributes
    ----------
    part
        The rows that are ranked.
    slots
        Where the ranks are known to lie.
    targets
        For each slot, the ranks it holds, counted from 1 over all scores; None until they are known.
    bits
        The bits that this reading counts.
    found
        Scores by candidate and rank.
    """

    part: Part
    slots: list[Slot]
    targets: list[list[int]] | None
    bits: int
    found: dict[tuple[int, int], float] = field(default_factory=dict)

    @classmethod
    def over(cls, part: Part, candidates: list[int], room: int) -> RankSearch:
        """Begin with all keys of each candidate."""
        return cls(part, [Slot(m) for m in candidates], None, _bits(len(candidates), room))

    def is_kept(self, slot: Slot) -> bool:
        """Whether the slot's keys are kept instead of counted."""
        return slot.count is not None and slot.count <= 2**self.bits

    @property
    def counted(self) -> list[int]:
        """Indices of the slots whose next bits are counted."""
        return [i for i, slot in enumerate(self.slots) if not self.is_kept(slot)]

    @property
    def kept(self) -> list[int]:
        """Indices of the slots whose keys are kept."""
        return [i for i, slot in enumerate(self.slots) if self.is_kept(slot)]

    def aim(self, wanted: list[tuple[int, int]]) -> None:
        """Say which ranks of which candidates are looked for, once the number of rows is known."""
        self.targets = [[rank for m, rank in wanted if m == slot.candidate] for slot in self.slots]

    def narrow(self, counts: NDArray[np.uint64], keys: list[NDArray[np.uint64]], room: int) -> None:
        """Take what a reading found; `counts` and `keys` are those of the counted and the kept slots."""
        assert self.targets is not None, "ranks are known before slots are narrowed"
        smaller: dict[tuple[int, int, int], tuple[Slot, list[int]]] = {}
        for i, row in zip(self.counted, counts, strict=True):
            self._narrow_one(self.slots[i], self.targets[i], row, smaller)
        for i, found in zip(self.kept, keys, strict=True):
            slot = self.slots[i]
            _check(slot, len(found))
            ordered = np.sort(found)
            for rank in self.targets[i]:
                self.found[slot.candidate, rank] = score_of(int(ordered[rank - slot.below - 1]))
        self.slots = [slot for slot, _ in smaller.values()]
        self.targets = [ranks for _, ranks in smaller.values()]
        self.bits = _bits(len(self.slots), room)

    def _narrow_one(
        self,
        slot: Slot,
        ranks: list[int],
        counts: NDArray[np.uint64],
        smaller: dict[tuple[int, int, int], tuple[Slot, list[int]]],
    ) -> None:
        upto = np.cumsum(counts)
        _check(slot, int(upto[-1]))
        width = max(0, slot.width - self.bits)
        for rank in ranks:
            place = int(np.searchsorted(upto, rank - slot.below))
            base = slot.base + (place << width)
            if width == 0:
                self.found[slot.candidate, rank] = score_of(base)
                continue
            count = int(counts[place])
            part = Slot(slot.candidate, base, width, count, slot.below + int(upto[place]) - count)
            smaller.setdefault((slot.candidate, base, width), (part, []))[1].append(rank)


def _check(slot: Slot, count: int) -> None:
    if slot.count is not None and slot.count != count:
        message = (
            f"the rows of this pass are not those of the pass before: {count} scores lie where "
            f"{slot.count} did; every pass must be given the same rows"
        )
        raise ValueError(message)


def _bits(n_slots: int, room: int) -> int:
    each = room // (8 * max(1, n_slots))
    return max(_LEAST_BITS, min(_MOST_BITS, each.bit_length() - 1))


def score_of(key: int) -> float:
    """Return the score that has a key."""
    bits = key ^ 2**63 if key >= 2**63 else key ^ (2**64 - 1)
    return float(np.array(bits, dtype=np.uint64).view(np.float64))

"""Windows of records with keys, and the lines that tests/fuzz/keys_driver.c writes."""

from __future__ import annotations

from array import array
from random import Random

from bmq.records import keys_twin
from bmq.records.key_layout import LOCK_NUMBERS, NO_KEY, SLOTS, KeyWindow, TakenKeys

STATES = (0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 0x80, 0x81)


def window(
    states: bytes, hashes: list[int], numbers: list[int], mine: list[int], owners: array[int] | None = None, me: int = 1
) -> KeyWindow:
    flags = bytearray(LOCK_NUMBERS)
    for number in mine:
        flags[number] = 1
    owned = array("H", (1,)) * SLOTS if owners is None else owners
    return KeyWindow(bytearray(states), array("H", numbers), array("H", hashes), flags, owned, me)


def random_take(dice: Random) -> tuple[bytes, KeyWindow, tuple[int, int, int, int]]:
    """A case for the driver, and the same for the twin: window; low, first, end, records_max."""
    states = bytes(dice.choices(STATES, k=dice.randrange(12)))
    hashes = dice.choices((0, 1, 2, 3, 255), (1, 4, 4, 4, 3), k=dice.randrange(16))
    numbers = [dice.randint(1, 3) for _ in states]
    mine = dice.sample((1, 2, 3), dice.randint(0, 2))
    limits = [dice.randrange(6), dice.randrange(8), dice.randrange(18)]
    me, records_max = dice.choice((1, 1, 1, 2)), dice.randrange(8)
    data = bytes((1, len(states), len(hashes), *limits, me, records_max)) + states + bytes((*hashes, *numbers, *mine))
    known = [NO_KEY if one == 255 else one for one in hashes]
    return data, window(states, known, numbers, mine, me=me), (*limits, records_max)  # type: ignore[return-value]


def take_line(found: TakenKeys) -> str:
    spans = "".join(f" {first}-{last}" for first, last in found.spans)
    return f"0 {found.taken} {found.next_index} {found.unknown_index} {found.waiting} |{spans}"


def hash_line(data: bytes) -> str:
    status, hashes = keys_twin.key_hashes(data[3:], data[1], data[2])
    return " ".join(map(str, (status, *hashes)))

"""The material: a few folders of text pages, made up from a seed, and one page that was damaged on the way."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path
from typing import Final

DOCUMENTS: Final = 10
PAGES_PER_DOCUMENT: Final = 24
WORDS_PER_PAGE: Final = 400
DAMAGED: Final = "damaged.txt"
_SYLLABLES: Final = ("ka", "ro", "mi", "ten", "sol", "ver", "an", "ti", "lu", "per", "no", "est")


def write_documents(directory: Path, seed: int = 7) -> list[Path]:
    """Folders `document-01`, … each with numbered pages."""
    chance = random.Random(seed)
    vocabulary = ["".join(chance.choices(_SYLLABLES, k=chance.randint(1, 4))) for _ in range(600)]
    folders = [directory / f"document-{number:02d}" for number in range(1, DOCUMENTS + 1)]
    for folder in folders:
        folder.mkdir()
        for number in range(1, PAGES_PER_DOCUMENT + 1):
            words = chance.choices(vocabulary, k=WORDS_PER_PAGE)
            (folder / f"page-{number:02d}.txt").write_text(" ".join(words), encoding="utf-8")
    return folders


def write_damaged(directory: Path) -> tuple[Path, str]:
    """A page that lost its second half, and the checksum of the whole."""
    whole = "a page that was written in full and arrived in part"
    path = directory / DAMAGED
    path.write_text(whole[: len(whole) // 2], encoding="utf-8")
    return path, hashlib.sha256(whole.encode()).hexdigest()

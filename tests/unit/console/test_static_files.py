"""The console's files as they are written: data cannot become markup, nothing is loaded from elsewhere, all is small."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Final

import pytest

from tests.unit.docs.pages import REPOSITORY

pytestmark = pytest.mark.unit

STATIC: Final = REPOSITORY / "bmq" / "console" / "static"
FILES: Final = sorted(STATIC.iterdir())
SCRIPTS: Final = [file for file in FILES if file.suffix == ".js"]
BYTES_MAX: Final = 300_000
"""Of all files, uncompressed: a third of what the console may send."""
LINES_MAX: Final = 400
FORBIDDEN: Final = {
    "markup made of data": r"\b(innerHTML|outerHTML|insertAdjacentHTML|createContextualFragment|parseFromString|srcdoc)\b",
    "a document that is written": r"\bdocument\s*\.\s*write",
    "code made of data": r"\beval\s*\(|\bnew\s+Function\b|\bsetTimeout\s*\(\s*[\"'`]|\bsetInterval\s*\(\s*[\"'`]",
    "a listener as an attribute": r"setAttribute\(\s*[\"'`]on|\.\s*on\w+\s*=[^=]",
    "a style as an attribute": r"setAttribute\(\s*[\"'`]style|\bstyle:\s|\bcssText\b",
    "an address with code": r"javascript:",
    "a login that outlives the tab": r"localStorage\.\w+\([^)]*(LOGIN|login|password|token)",
}
IMPORT: Final = re.compile(r"""(?:\bfrom\s+|\bimport\s*\(?\s*)["']([^"']+)["']""")


def relative(file: Path) -> str:
    return file.name


@pytest.mark.parametrize("file", SCRIPTS, ids=relative)
@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_script_has_what_lets_data_become_code(file: Path, what: str) -> None:
    found = re.search(FORBIDDEN[what], file.read_text(encoding="utf-8"))
    assert found is None, f"{what}: {found}"


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("markup made of data", "row.innerHTML = name"),
        ("code made of data", "eval(text)"),
        ("code made of data", "setTimeout('go()', 1)"),
        ("a listener as an attribute", "link.onclick = go"),
        ("a listener as an attribute", 'link.setAttribute("onclick", text)'),
        ("a login that outlives the tab", "localStorage.setItem(LOGIN, token)"),
    ],
)
def test_the_rules_find_what_they_are_for(what: str, text: str) -> None:
    assert re.search(FORBIDDEN[what], text)


@pytest.mark.parametrize("file", FILES, ids=relative)
def test_nothing_is_loaded_from_elsewhere(file: Path) -> None:
    text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"(https?:)?//[\w.-]+\.\w+/", text), "an address of another place"


@pytest.mark.parametrize("file", SCRIPTS, ids=relative)
def test_modules_import_files_that_are_there(file: Path) -> None:
    for name in IMPORT.findall(file.read_text(encoding="utf-8")):
        assert name.startswith("./"), name
        assert (STATIC / name[2:]).exists(), name


def test_every_script_is_used() -> None:
    text = "".join(file.read_text(encoding="utf-8") for file in FILES)
    for file in SCRIPTS:
        assert f"/{file.name}" in text, file


def test_the_page_has_a_language_landmarks_and_no_inline_code() -> None:
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    assert '<html lang="en">' in page
    for landmark in ("<header>", "<nav ", "<main ", "<footer>"):
        assert page.count(landmark) == 1, landmark
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", page)


def test_all_of_it_is_small() -> None:
    sizes = {file.name: len(file.read_bytes()) for file in FILES}
    assert sum(sizes.values()) <= BYTES_MAX, sizes
    assert sum(len(gzip.compress(file.read_bytes())) for file in FILES) <= BYTES_MAX / 4
    for file in SCRIPTS:
        assert len(file.read_text(encoding="utf-8").splitlines()) <= LINES_MAX, file


def contrast(one: str, other: str) -> float:
    """The contrast of two colours, #rrggbb (WCAG 2.1, relative luminance)."""

    def luminance(colour: str) -> float:
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1, 2])
def test_colours_are_told_apart(theme: int) -> None:
    style = (STATIC / "style.css").read_text(encoding="utf-8")
    block = re.findall(r"--page:[^}]+", style)[theme]
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block))
    pairs = [
        ("text", "page"),
        ("text", "card"),
        ("soft", "page"),
        ("soft", "card"),
        ("accent", "page"),
        ("accent", "card"),
    ]
    pairs += [("on-accent", "accent"), ("page", "bad"), *((kind, f"{kind}-page") for kind in ("good", "warn", "bad"))]
    pairs += [(kind, "page") for kind in ("good", "warn", "bad")]
    for one, other in pairs:
        assert contrast(colours[one], colours[other]) >= 4.5, (one, other)

"""A real browser for the console's tests: Debian's Chromium, driven by Playwright, with axe-core for accessibility.

Playwright's own download of browsers is not used. axe-core comes from npm at a fixed version, whose checksum is known here.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

from testing.kept_files import cache_directory, kept_directory
from testing.patience import Patience

AXE: Final = "axe-core@4.11.0"
AXE_SHA512: Final = "ilYanEU8vxxBexpJd8cWM4ElSQq4QctCLKih0TSfjIfCQTeyH/6zVrmIJfLPrKTKJRbiG+cfnZbQIjAlJmF1jQ=="
AXE_RULES: Final = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]
SERIOUS: Final = ("serious", "critical")
WAIT_MS: Final = 20_000
MARKUP: Final = '<img src=x onerror="window.hit=1"><script>window.hit=1</script>'
"""Data of a page that shows it as it is: `window.hit` is set where it becomes a part of the page."""
_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> str:
    """The path of the browser."""
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    assert found is not None, "chromium is not installed: run deploy/dev/install-tools.sh chromium"
    return found


@contextmanager
def launched() -> Iterator[Browser]:
    """A browser without a window; expectations of its pages wait up to WAIT_MS. Root cannot have Chromium's sandbox."""
    expect.set_options(timeout=WAIT_MS)
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=[*arguments, "--disable-dev-shm-usage"])
        try:
            yield browser
        finally:
            browser.close()


def axe_source() -> str:
    """The script of axe-core, from the user's cache or from npm."""

    def make(place: Path) -> None:
        subprocess.run(
            ["npm", "pack", AXE, "--silent", "--pack-destination", str(place)],
            check=True,
            timeout=Patience(120).limit_s,
            cwd=place,
            capture_output=True,
        )
        (archive,) = place.glob("*.tgz")
        digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        assert digest == AXE_SHA512, f"{AXE} is another file than before: {digest}"
        with tarfile.open(archive) as files:
            source = files.extractfile("package/axe.min.js")
            assert source is not None
            (place / "axe.min.js").write_bytes(source.read())

    return (kept_directory(cache_directory() / AXE, make) / "axe.min.js").read_text(encoding="utf-8")


class WatchedPage:
    """A page, and what it must not do: `errors` of scripts and of the policy, requests to `others`."""

    def __init__(self, context: BrowserContext, base: str) -> None:
        self.base = base
        self.errors: list[str] = []
        self.others: list[str] = []
        self.page: Page = context.new_page()
        self.page.set_default_timeout(Patience(WAIT_MS / 1000).limit_s * 1000)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._said)
        self.page.on("request", lambda request: self._asked(request.url))

    def go(self, where: str = "") -> Page:
        """Open a page of the console, by what follows `#`, and wait for its heading."""
        self.page.goto(f"{self.base}/{where}")
        self.page.wait_for_selector("main h1")
        return self.page

    def findings(self, axe: str) -> list[str]:
        """Serious findings of axe on the page as it is."""
        self.page.evaluate(axe)
        found: Any = self.page.evaluate("rules => axe.run(document, {runOnly: rules})", AXE_RULES)
        return [
            f"{one['id']}: {one['help']}: {node['html'][:200]}"
            for one in found["violations"]
            if one["impact"] in SERIOUS
            for node in one["nodes"]
        ]

    def check(self) -> None:
        """Nothing that must not be has happened."""
        assert self.errors == [] and self.others == []

    def _said(self, message: ConsoleMessage) -> None:
        # A refused request is told by the browser, too; that is no error of the page.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.errors.append(message.text)

    def _asked(self, address: str) -> None:
        if not address.startswith((self.base, "blob:")):
            self.others.append(address)

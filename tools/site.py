"""Build the site of the documents into ./site: dead links and pages without a place fail, and so does what loads from other hosts.

python -m tools.site
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

from tools.site_hooks import REPOSITORY
from tools.site_output import foreign_assets

SITE: Final = REPOSITORY / "site"


def main() -> int:
    words = [sys.executable, "-m", "mkdocs", "--quiet", "build", "--strict", "--clean"]
    built = subprocess.run(words, cwd=REPOSITORY, check=False, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    if built.returncode != 0:
        return built.returncode
    pages = sorted(SITE.rglob("*.html"))
    foreign = {(str(page.relative_to(SITE)), found) for page in pages for found in foreign_assets(page.read_text())}
    for page, found in sorted(foreign):
        print(f"{page} loads {found}")
    print(
        f"{len(pages)} pages are in {SITE.relative_to(REPOSITORY)}/: open {SITE.name}/index.html, or serve the directory"
    )
    return int(bool(foreign))


if __name__ == "__main__":
    sys.exit(main())

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
    # Not --quiet: strict mode counts the warnings that are logged, and then there are none.
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--clean"]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(words, cwd=REPOSITORY, check=False, env=environment, capture_output=True, text=True)
    if built.returncode != 0:
        print("\n".join(line for line in built.stderr.splitlines() if not line.startswith("INFO")))
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

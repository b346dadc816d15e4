"""What MkDocs calls while it builds the site (mkdocs.yml): pages from outside of docs, made pages, links, headings' anchors."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from tools.site_links import OUTSIDE, path_of, place_on_site, targets, with_links_of_site
from tools.site_markdown import for_python_markdown
from tools.site_nav import expanded
from tools.site_reference import made_pages

REPOSITORY: Final = Path(__file__).resolve().parents[1]
DOCS: Final = REPOSITORY / "docs"


def is_there(path: str) -> bool:
    return (REPOSITORY / path).is_file()


def docs_pages() -> list[str]:
    """Paths within docs."""
    return sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


def outside_files() -> list[str]:
    """Paths of files outside of docs that pages of docs link to, and those that these pages link to."""
    found: set[str] = set()
    open_pages = [f"docs/{page}" for page in docs_pages()]
    while open_pages:
        page = open_pages.pop()
        for path in targets(page, (REPOSITORY / page).read_text(encoding="utf-8")):
            if path not in found and is_there(path) and not path.startswith("docs/"):
                found.add(path)
                if path.endswith(".md"):
                    open_pages.append(path)
    return sorted(found)


def on_config(config: Any) -> Any:
    from pymdownx.slugs import slugify

    # The anchors that GitHub makes, so that one link holds in both.
    config.mdx_configs.setdefault("toc", {})["slugify"] = slugify(case="lower")
    config.nav = expanded(config.nav, docs_pages())
    return config


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    for path in outside_files():
        files.append(File.generated(config, place_on_site(path), abs_src_path=str(REPOSITORY / path)))
    for place, content in made_pages().items():
        files.append(File.generated(config, place, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    place = page.file.src_uri
    if place.startswith(OUTSIDE) or (DOCS / place).is_file():
        markdown = with_links_of_site(path_of(place), markdown, is_there)
    return for_python_markdown(markdown)

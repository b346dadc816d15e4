"""`/docs` and what it loads: all of it from the server itself, and nothing that a strict policy forbids."""

from __future__ import annotations

from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit

import pytest

from tests.unit.admin.rest.cluster import RestCluster, application

pytestmark = pytest.mark.unit

NODE = "http://node/"


class Page(HTMLParser):
    """`addresses`: everything it refers to. `inline`: scripts, styles and handlers in the page itself."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.inline: list[str] = []
        self._within = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._within = tag
        for name, value in attrs:
            if name in ("src", "href", "action", "srcset", "data"):
                self.addresses.append(value or "")
            if name == "style" or name.startswith("on"):
                self.inline.append(f"{tag} {name}")

    def handle_endtag(self, tag: str) -> None:
        self._within = ""

    def handle_data(self, data: str) -> None:
        if self._within in ("script", "style") and data.strip():
            self.inline.append(data)


def own_html_pages() -> list[str]:
    """Paths of pages for people: GET without parameters and outside of the API's description."""
    described = application().openapi()["paths"]
    found = ["/", "/docs", "/redoc"]
    return [path for path in found if path not in described]


async def test_no_page_names_another_origin() -> None:
    async with RestCluster() as cluster:
        for path in own_html_pages():
            answer = await cluster.client.get(path, follow_redirects=True)
            assert "://" not in answer.text, path
            if not answer.headers["content-type"].startswith("text/html"):
                continue
            page = Page(answer.text)
            assert page.inline == [], "a strict policy forbids scripts and styles within a page"
            for address in page.addresses:
                full = urljoin(str(answer.url), address)
                assert urlsplit(full).netloc == urlsplit(NODE).netloc, address
                loaded = await cluster.client.get(full)
                assert loaded.status_code == 200, address
                assert loaded.content, address


async def test_the_documentation_is_complete_under_its_own_policy() -> None:
    async with RestCluster() as cluster:
        answer = await cluster.client.get("/docs")
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy and "*" not in policy and "http" not in policy
        kinds = {}
        for address in Page(answer.text).addresses:
            loaded = await cluster.client.get(urljoin(str(answer.url), address))
            assert loaded.headers["content-type"].split(";")[0] != "text/html"
            kinds[address.rpartition(".")[2]] = loaded.headers["content-type"].split(";")[0]
        assert kinds == {"js": "text/javascript", "css": "text/css", "png": "image/png", "json": "application/json"}
        start = (await cluster.client.get("/docs/start.js")).text
        assert "validatorUrl: null" in start, "else Swagger UI asks validator.swagger.io"


@pytest.mark.parametrize("path", ["/docs/other.js", "/docs/..%2f__init__.py", "/docs/redoc.standalone.js", "/redoc"])
async def test_nothing_else_of_the_package_is_served(path: str) -> None:
    async with RestCluster() as cluster:
        answer = await cluster.client.get(path)
        assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")

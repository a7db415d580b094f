"""Every link, every code block and every page of the built site: `python .ci/check_site.py build/site`.

Pages are opened in Chromium from the file system, without network, on a phone and on a desk, light and dark: no errors,
nothing fetched from elsewhere, nothing wider than the phone.
"""

import contextlib
import doctest
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
SIZES = [(width, scheme) for width in (400, 1280) for scheme in ("light", "dark")]
# What `make test` runs already (tests/test_compiled.py and its like), or what takes the folder of `make run`.
RUN_ELSEWHERE = {"bandit.md", "compiled.md", "function_classes.md", "page.md", "reproduce.md", "table1.md"}
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Page(HTMLParser):
    """What a page links to, what it loads, and where it can be linked to."""

    def __init__(self, path):
        super().__init__()
        self.links, self.loads, self.anchors = [], [], set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" or given.get("rel") in ("canonical", "next", "prev", "search", "index"):
            self.links += [given["href"]] if given.get("href") else []
        else:
            self.loads += [given[name] for name in ("src", "href", "data", "poster") if given.get(name)]


def wrong_links(site):
    """Links inside the site that lead nowhere, and whatever is loaded from elsewhere."""
    pages = {path: Page(path) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        for link in [*page.links, *page.loads]:
            parts = urlsplit(link)
            if parts.scheme in ("http", "https") or link.startswith("//"):
                if link in page.loads:
                    yield f"{path.relative_to(site)} loads {link}"
            elif parts.scheme in ("", "file"):
                target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
                target = target / "index.html" if target.is_dir() else target
                if not target.exists():
                    yield f"{path.relative_to(site)} links to {link}, which is not there"
                elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                    yield f"{path.relative_to(site)} links to {link}, which has no such place"
    for path in site.rglob("*.css"):
        for link in re.findall(
            r"url\(\s*['\"]?((?:https?:)?//[^)'\"]+)|@import\s+['\"](https?:[^'\"]+)", path.read_text()
        ):
            yield f"{path.relative_to(site)} loads {''.join(link)}"


def blocks(page):
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def failing_blocks(page):
    """The Python of a page, from top to bottom, in one namespace and an empty folder."""
    name, space = str(page.relative_to(ROOT)), {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), open(os.devnull, "w") as nowhere:
        for block in blocks(page):
            if ">>>" in block:
                test = doctest.DocTestParser().get_doctest(block, space, name, name, 0)
                runner = doctest.DocTestRunner(optionflags=FLAGS)
                said = []
                if runner.run(test, out=said.append, clear_globs=False).failed:
                    yield f"{name}: {''.join(said)}"
                space = test.globs
            else:
                try:
                    with contextlib.redirect_stdout(nowhere):
                        exec(compile(block, name, "exec"), space)
                except Exception as error:
                    yield f"{name}: {type(error).__name__}: {error}\n{block}"


def wrong_pages(site, browser):
    for width, scheme in SIZES:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True)
        tab = context.new_page()
        tab.set_default_timeout(120_000)
        said = []
        tab.on("console", lambda message, said=said: said.append(f"console: {message.text}"))
        tab.on("pageerror", lambda error, said=said: said.append(f"error: {error}"))
        tab.on(
            "request",
            lambda request, said=said: (
                None if request.url.startswith(("file:", "data:", "blob:")) else said.append(f"fetches {request.url}")
            ),
        )
        for path in sorted(site.rglob("*.html")):
            said.clear()
            tab.goto(path.as_uri())
            wide = tab.evaluate("document.documentElement.scrollWidth")
            if wide > width:
                said.append(f"is {wide} px wide")
            yield from (f"{path.relative_to(site)} at {width} px, {scheme}: {each}" for each in said)
        context.close()


def found(site):
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        if os.environ.get("FPI_NEED_BROWSER"):
            yield "there is no chromium here, so no page was opened"
        return
    from playwright.sync_api import sync_playwright

    root = ["--no-sandbox"] if os.geteuid() == 0 else []  # as root Chromium refuses its sandbox; these pages are ours
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=root)
        yield from wrong_pages(site, browser)
        browser.close()


def in_processes(pages):
    """Each page alone in a process of its own, so that none leans on another."""

    def run(page):
        return subprocess.run([sys.executable, __file__, "--page", page], capture_output=True, text=True)

    with ThreadPoolExecutor(os.cpu_count()) as workers:
        return [done.stdout + done.stderr for done in workers.map(run, pages) if done.returncode]


def main():
    if sys.argv[1] == "--page":
        wrong = list(failing_blocks(Path(sys.argv[2])))
        sys.exit("\n".join(wrong) or 0)
    site = Path(sys.argv[1]).resolve()
    pages = [page for page in sorted(DOCS.rglob("*.md")) if blocks(page) and page.name not in RUN_ELSEWHERE]
    count = len(list(site.rglob("*.html")))
    steps = {
        "links": (f"{count} pages", lambda: list(wrong_links(site))),
        "code": (f"{len(pages)} pages with code", lambda: in_processes(pages)),
        "browser": (f"{count} pages, {len(SIZES)} times each", lambda: list(found(site))),
    }
    wrong = []
    for name in sys.argv[2:] or steps:
        begun = time.monotonic()
        what, look = steps[name]
        new = look()
        wrong += new
        print(f"{name}: {what}, {len(new)} problems, {time.monotonic() - begun:.0f} s", flush=True)
    sys.exit("\n".join(wrong) or 0)


if __name__ == "__main__":
    main()

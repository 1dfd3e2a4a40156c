"""Pages of the site that are not files of docs/.

The landing page is README.md, and the tutorial is its notebook with the stored
outputs.
"""

import pathlib
import re

import nbconvert
from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).parents[2]
PAGES = {
    "README.md": "index.md",
    "BUILD.md": "build.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}


def on_files(files, config):
    """Adds the pages whose sources lie elsewhere."""
    for source, page in PAGES.items():
        text = with_links_of_the_site((ROOT / source).read_text())
        files.append(File.generated(config, page, content=text))
    notebook = ROOT / "docs" / "tutorial.ipynb"
    text, resources = nbconvert.MarkdownExporter().from_filename(notebook)
    files.append(File.generated(config, "tutorial.md", content=text))
    for name, content in resources["outputs"].items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown, page, config, files):
    """Names linked pages by their titles; the notebook is its page."""
    markdown = markdown.replace("](tutorial.ipynb)", "](tutorial.md)")

    def titled(match):
        linked = files.get_file_from_path(match[1])
        return f"[{linked.page.title}]({match[1]}" if linked else match[0]

    return re.sub(r"\[(\w+\.md)\]\(\1(?=[)#])", titled, markdown)


def with_links_of_the_site(text):
    """Rewrites links from the root of the repository to those of the site."""
    text = text.replace("](docs/", "](")
    for source, page in PAGES.items():
        text = text.replace(f"]({source})", f"]({page})")
    return re.sub(r"\[[^]]*\]\((LICENSE|CITATION\.cff)\)", r"\1", text)

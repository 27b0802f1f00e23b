# SPDX-License-Identifier: Apache-2.0
"""For MkDocs: links of the documents to files that are not documents, and words that become links.

In the repository these links lead to the file. A site has no such files: there the path stands.
"""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[1]
LINK = re.compile(r"\[([^\]]+)\]\((\.\./[^)#\s]+)(#[^)]*)?\)")


def on_page_markdown(markdown, page, config, files):
    folder = pathlib.Path(config["docs_dir"], page.file.src_uri).parent

    def replace(match):
        target = pathlib.Path(folder, match[2]).resolve()
        if target.is_relative_to(config["docs_dir"]) or not target.exists():
            return match[0]  # MkDocs checks it
        return f"`{target.relative_to(ROOT)}`"

    return LINK.sub(replace, markdown)

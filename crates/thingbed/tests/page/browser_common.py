"""What the tests in a browser share."""

import os

BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome")


def axe(page, what):
    """No violation of the rules of axe-core."""
    path = os.environ.get("AXE")
    if not path:
        print("NOT RUN: axe; set AXE to the path of axe.min.js")
        return
    # The page's policy allows no other scripts; the browser's own evaluation is not subject to it.
    with open(path, encoding="utf-8") as file:
        page.evaluate(file.read() + ";0")
    found = page.evaluate("axe.run()")["violations"]
    for one in found:
        print("AXE", one["id"], one["impact"], [node["html"][:200] for node in one["nodes"]][:3])
    assert not found, what
    print(f"ok: axe, {what}")

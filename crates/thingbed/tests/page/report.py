"""Reads a report in a real browser: python3 report.py REPORT FOLDER.

The report is of the matrix in page_browser.rs. Prints a line for each step; ends with an error at
the first that does not hold. With AXE=axe.min.js it also checks accessibility. Pictures are written
to FOLDER.
"""

import csv
import io
import shutil
import sys
from pathlib import Path

from browser_common import BROWSERS, axe
from playwright.sync_api import expect, sync_playwright

REPORT, FOLDER = sys.argv[1:3]
# The values of the axis `note`, which spreadsheets and browsers could run.
EVIL = ["=1+1", "<img src=x onerror=document.title='evil'>"]
CELLS = 12
# A busy machine.
expect.set_options(timeout=60_000)


def opened(browser, errors, **options):
    context = browser.new_context(accept_downloads=True, **options)
    page = context.new_page()
    page.set_default_timeout(60_000)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
    page.on("request", lambda request: page_only(request.url, errors))
    page.goto(Path(REPORT).resolve().as_uri())
    return page


def page_only(url, errors):
    """The report is a single file: it must load nothing else."""
    if not url.startswith(("file:", "blob:", "data:")):
        errors.append(f"loads {url}")


def download(page, button):
    with page.expect_download() as waiting:
        button.click()
    done = waiting.value
    return done.suggested_filename, Path(done.path()).read_bytes()


def rows(section):
    """The shown rows of the first table, without its head."""
    return section.locator("table").first.locator("tbody tr:visible, tr:visible:has(td)")


def reads_results_first(page):
    heads = page.locator("main > section > h2").all_text_contents()
    assert heads[0] == "Results", heads
    assert heads.index("Figures by axis") < heads.index("Evidence") < heads.index("Runs"), heads
    folded = page.locator("main > section:has(h2:has-text('Evidence'))")
    expect(folded).to_have_class("fold folded")
    head = folded.locator("h2 button")
    head.focus()
    page.keyboard.press("Enter")
    expect(head).to_have_attribute("aria-expanded", "true")
    expect(folded.locator("table").first).to_be_visible()
    print("ok: results come first; evidence of a valid run is folded, and opens by keyboard")


def filters(page):
    results = page.locator("#results")
    assert rows(results).count() == CELLS, rows(results).count()
    page.locator("#filter summary").click()
    page.get_by_label("udp", exact=True).uncheck()
    page.get_by_label("20 %", exact=True).uncheck()
    expect(page.locator("#filter summary")).to_have_text(f"Filter: 4 of {CELLS} cells shown")
    assert rows(results).count() == 4, rows(results).count()
    text = " ".join(rows(results).all_text_contents())
    assert "udp" not in text and "20 %" not in text, text
    name, data = download(page, results.get_by_role("button", name="CSV of the table").first)
    table = list(csv.reader(io.StringIO(data.decode())))
    assert name.startswith("report-results") and len(table) == 5, (name, table)
    print("ok: a filter hides cells in tables and in their CSV")
    page.get_by_label("tcp", exact=True).uncheck()
    expect(page.locator("#filter summary")).to_have_text(f"Filter: 0 of {CELLS} cells shown")
    for label in ("udp", "tcp", "20 %"):
        page.get_by_label(label, exact=True).check()
    assert rows(results).count() == CELLS
    print("ok: no cell, and all cells again")


def explores(page):
    place = page.locator("#explore")
    place.scroll_into_view_if_needed()
    figure, axis = (place.locator("label", has_text=name).locator("select") for name in ("Figure", "against"))
    names = figure.locator("option").all_text_contents()
    for name in names:
        figure.select_option(label=name)
    wanted = next(name for name in names if "p99" in name)
    figure.select_option(label=wanted)
    axis.select_option(label="loss")
    plot = place.locator(".plot")
    expect(plot).to_have_attribute("aria-label", f"{wanted} against loss; arrow keys read the values")
    expect(plot.locator("canvas").first).to_be_visible()
    plot.focus()
    spoken = page.locator("[aria-live]").first
    page.keyboard.press("Home")
    expect(spoken).to_contain_text("at 0 %")
    page.keyboard.press("End")
    expect(spoken).to_contain_text("at 20.0 %")
    assert "tcp" in spoken.text_content() and "udp" in spoken.text_content()
    print("ok: a figure against an axis, read by arrow keys:", spoken.text_content()[:60])
    name, data = download(page, place.get_by_role("button", name="CSV of"))
    table = list(csv.reader(io.StringIO(data.decode())))
    assert table[0][0] == "line" and len(table) == 1 + CELLS, table
    assert not [cell for row in table for cell in row if cell[:1] in ("=", "@")], table
    axis.select_option(label="note")
    _, data = download(page, place.get_by_role("button", name="CSV of"))
    assert "'=1+1" in data.decode(), "a spreadsheet would run the value"
    name, data = download(page, place.get_by_role("button", name="PNG of"))
    assert name.endswith(".png") and data.startswith(b"\x89PNG\r\n\x1a\n") and len(data) > 5000
    place.get_by_role("button", name="table of").click()
    shown = place.get_by_role("group", name="Values of the chart")
    assert shown.locator("tr").count() == 1 + CELLS, shown.locator("tr").count()
    print("ok: CSV without formulas, PNG and a table of the chart")


def draws_charts(page):
    for chart in page.locator("main figure .plot").all():
        chart.scroll_into_view_if_needed()
        if chart.is_visible():
            expect(chart.locator("canvas").first).to_be_visible()
    print("ok:", page.locator("main figure .plot").count(), "charts are drawn")


def finds_sections(page):
    """The contents stay at the top, and must not cover the heading that a link leads to."""
    below = """id => {
        const head = document.querySelector(`#${id} h2`).getBoundingClientRect();
        return head.top >= document.querySelector("nav").getBoundingClientRect().bottom && head.bottom < innerHeight;
    }"""
    links = page.locator("nav a").all()
    for link in links:
        link.click()
        page.wait_for_function(below, arg=link.get_attribute("href")[1:])
    # A fragment that is no name, and cannot be decoded.
    page.goto(page.url.split("#")[0] + "#100%")
    page.reload()
    expect(page.locator("#filter summary")).to_be_visible()
    print("ok:", len(links), "sections are found by the contents, and any fragment is harmless")


def unfold(page):
    folded = page.locator("main > section > h2 button[aria-expanded=false]")
    while folded.count():
        folded.first.click()
    page.evaluate("document.querySelectorAll('main details').forEach(part => part.open = true)")


def reads(browser):
    errors = []
    wide = opened(browser, errors, viewport={"width": 1280, "height": 900})
    reads_results_first(wide)
    filters(wide)
    explores(wide)
    narrow = opened(browser, errors, viewport={"width": 400, "height": 800}, color_scheme="dark")
    height = narrow.evaluate("document.documentElement.scrollHeight")
    assert height < 4000, f"{height} px tall at a width of 400"
    narrow.screenshot(path=f"{FOLDER}/report-narrow.png", full_page=True)
    for name, page in (("wide", wide), ("narrow", narrow)):
        unfold(page)
        draws_charts(page)
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= page.viewport_size["width"], f"{name}: {width} px wide"
        axe(page, f"report, {name}")
    wide.evaluate("scrollTo(0, 0)")
    wide.screenshot(path=f"{FOLDER}/report-wide.png", full_page=True)
    finds_sections(wide)
    finds_sections(narrow)
    assert "evil" not in wide.title() and wide.locator("main img").count() == 0
    assert EVIL[1] in wide.locator("#results").text_content()
    print("ok: markup in values is text")
    plain = opened(browser, errors, java_script_enabled=False)
    assert rows(plain.locator("#results")).count() == CELLS
    assert plain.locator("main > section table").first.is_visible()
    assert plain.locator(".plot:visible").count() == 0
    print("ok: tables without scripts")
    assert not errors, errors


def main():
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    with sync_playwright() as playwright:
        options = {"executable_path": path} if path else {}
        browser = playwright.chromium.launch(args=["--no-sandbox"], **options)
        reads(browser)
        browser.close()


main()

"""Drives the page to watch in a real browser: python3 browser.py URL FOLDER.

Prints a line for each step; ends with an error at the first that does not hold. With AXE=axe.min.js it
also checks accessibility. Pictures are written to FOLDER.
"""

import shutil
import sys

from browser_common import BROWSERS, axe
from playwright.sync_api import expect, sync_playwright

URL, FOLDER = sys.argv[1:3]
# A busy machine.
PATIENCE = 60_000
expect.set_options(timeout=PATIENCE)


def opened(browser, errors, **options):
    context = browser.new_context(**options)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
    page.goto(URL)
    expect(page.get_by_role("button", name="meter-1", exact=True)).to_be_visible()
    return page


def watch(browser):
    errors = []
    one = opened(browser, errors, viewport={"width": 1280, "height": 900})
    assert "token" not in one.url, "the token is still in the address bar"
    one.reload()
    meter = one.get_by_role("button", name="meter-1", exact=True)
    expect(meter).to_be_visible()
    print("ok: the token survives a reload, and is not in the address bar")

    two = opened(browser, errors, viewport={"width": 400, "height": 800}, color_scheme="dark")
    meter.focus()
    one.keyboard.press("Enter")
    expect(one.locator("#h-node")).to_have_text("Node meter-1")
    expect(one.get_by_role("button", name="Kill")).to_be_disabled()
    odd = one.locator("tr", has=one.get_by_role("button", name="constructor", exact=True))
    expect(odd.locator("td").nth(2)).to_have_text("0.0")
    print("ok: no buttons without a program; a name that JavaScript knows is a name like others")

    slider = one.get_by_label("Delay, lan, from the node")
    expect(slider).to_have_attribute("aria-valuetext", "20 ms")
    slider.focus()
    one.keyboard.press("ArrowRight")
    text = slider.get_attribute("aria-valuetext")
    assert text != "20 ms", text
    two.get_by_role("button", name="meter-1", exact=True).click()
    expect(two.get_by_label("Delay, lan, from the node")).to_have_attribute("aria-valuetext", text)
    expect(two.locator("#timeline")).to_contain_text(f"delay {text} by hand")
    print(f"ok: a slider moved by keyboard to {text} in one browser moves in the other")

    rate = one.get_by_label("Rate, lan, from the node")
    rate.focus()
    one.keyboard.press("End")
    expect(rate).to_have_attribute("aria-valuetext", "no limit")
    one.keyboard.press("Home")
    expect(two.locator("#links fieldset .now").first).to_contain_text("1 kbit/s")
    one.keyboard.press("End")
    expect(two.locator("#links fieldset .now").first).not_to_contain_text("kbit/s")
    expect(one.locator("#problem")).to_be_empty()
    print("ok: a rate is set and removed")

    other = one.locator("#links fieldset").first.locator("input[type=text]")
    other.fill("colour=red")
    other.press("Enter")
    expect(one.get_by_role("alert")).to_contain_text("unknown key `colour`")
    # Between two positions of the slider.
    other.fill("delay=33 ms")
    other.press("Enter")
    expect(slider).to_have_attribute("aria-valuetext", "33 ms")
    other.fill("jitter=3 ms")
    other.press("Enter")
    expect(one.locator("#links fieldset .now").first).to_contain_text("jitter")
    expect(one.get_by_role("alert")).to_be_empty()
    print("ok: other keys, with the errors of the command line")

    one.locator("#links fieldset").first.get_by_role("button", name="Take down").click()
    expect(two.locator("#links fieldset").first).to_contain_text("Link is down")
    one.locator("#links fieldset").first.get_by_role("button", name="Take up").click()
    expect(two.locator("#links fieldset").first).not_to_contain_text("Link is down")
    print("ok: a link goes down and up")

    one.get_by_role("button", name="server", exact=True).click()
    expect(one.locator("#logs")).to_contain_text("<b>begun</b>")
    assert one.locator("#logs b").count() == 0, "markup of a log is markup of the page"
    about = one.locator("#about").text_content()
    assert "·<i>evil</i>" in about and "\u202e" not in about and len(about) < 500, about
    assert one.locator("#about i").count() == 0, "markup of a program is markup of the page"
    expect(one.locator("#logs")).to_contain_text("·[2Jcleared")
    row = one.locator("tr", has=one.get_by_role("button", name="server", exact=True))
    one.get_by_role("button", name="Pause").click()
    expect(row).to_contain_text("paused")
    one.get_by_role("button", name="Resume").click()
    expect(row).to_contain_text("running")
    one.get_by_role("button", name="Kill").click()
    expect(row).to_contain_text("killed by signal 9")
    one.get_by_role("button", name="Start", exact=True).click()
    expect(row).to_contain_text("running")
    expect(two.locator("#timeline")).to_contain_text("kill server")
    print("ok: logs as text; pause, resume, kill and start of a program")

    meter.click()
    one.get_by_role("button", name="Open a shell").click()
    screen = one.locator("#terminal .xterm-accessibility")
    expect(one.get_by_role("button", name="Close the shell")).to_be_visible()
    one.keyboard.type("hostname; ping -c 4 -i 0.3 server\n")
    expect(screen).to_contain_text("4 received")
    expect(screen).to_contain_text("meter-1")
    one.keyboard.press("Control+]")
    assert one.evaluate("document.activeElement.id") == "open", "the keyboard cannot leave"
    print("ok: a terminal by keyboard, and out of it")

    one.get_by_role("button", name="meter-2", exact=True).click()
    expect(one.locator("#h-node")).to_have_text("Node meter-2")
    expect(one.locator("#h-terminal")).to_have_text("Terminal in meter-1")
    expect(one.locator("#logs")).to_have_text("")
    one.locator("#open").click()
    expect(one.locator("#h-terminal")).to_have_text("Terminal in meter-2")
    meter.click()
    one.locator("#open").click()
    one.locator("#terminal").click()
    one.keyboard.type("yes 0123456789\n")
    expect(screen).to_contain_text("0123456789")
    one.keyboard.press("Control+c")
    one.keyboard.type("echo fini''shed\n")
    expect(screen).to_contain_text("finished")
    print("ok: a terminal stays in its node, and can be stopped when it prints much")

    expect(one.locator("#rate canvas, #rate svg").first).to_be_visible()
    cells = one.locator("tr", has=meter).locator("td")
    delay = "n => n.closest('tr').cells[4].textContent"
    one.wait_for_function(
        "() => past['meter-1'] && past['meter-1'].some(p => p[1].delay > 1 && p[1].out > 0)"
    )
    assert cells.count() == 8, delay
    print("ok: figures of the node have its traffic")

    for name, page in (("wide", one), ("narrow", two)):
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= page.viewport_size["width"], f"{name}: {width} px wide"
        page.screenshot(path=f"{FOLDER}/page-{name}.png", full_page=True)
        axe(page, name)
    assert not errors, errors
    return one, two


def main():
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    with sync_playwright() as playwright:
        options = {"executable_path": path} if path else {}
        browser = playwright.chromium.launch(args=["--no-sandbox"], **options)
        one, two = watch(browser)
        # Another page cannot read or change anything, even if it knows the token.
        origin, token = URL.split("/#token=")
        three = browser.new_page()
        three.route("http://evil.example/", lambda route: route.fulfill(body="<p>evil</p>"))
        three.goto("http://evil.example/")
        attack = """([url, token]) => fetch(url + '/api/request', {method: 'POST', mode: 'no-cors',
            headers: {Authorization: 'Bearer ' + token}, body: '{"end":{}}'}).then(
            r => r.type + r.status, () => 'failed')"""
        answer = three.evaluate(attack, [origin, token])
        assert answer in ("failed", "opaque0"), answer
        print("ok: another page in the browser gets nothing:", answer)
        one.on("dialog", lambda dialog: dialog.accept())
        one.get_by_role("button", name="Stop the lab").click()
        for page in (one, two):
            expect(page.locator("#facts")).to_contain_text("the lab has ended")
        print("ok: both pages say that the lab has ended")
        browser.close()


main()

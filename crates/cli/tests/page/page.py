"""The owner's page in a real browser: usage page.py CHROMIUM URL NAME PASSWORD CONFIG RESTART PICTURES AXE

CONFIG is the gateway's configuration. RESTART is a file: the test writes it, and whoever started the gateway starts
another, with what it says on the command line, and deletes it; once there is one of that name and the ending `.peer`,
the first of the gateway's peers is killed. PICTURES is a folder for screenshots; AXE is axe-core's
script. Prints `ok` and what was seen; any difference is an exception.
"""

import re
import sys
import time
from pathlib import Path

import browser as chrome
from playwright.sync_api import expect

chromium, url, name, password, config, restart, pictures, axe = sys.argv[1:9]
config = Path(config)
pictures = Path(pictures)
AXE = Path(axe).read_text(encoding="utf-8")


def looks(page) -> None:
    """Everything can be read and named, nothing is wider than the window, and axe-core has nothing serious to say."""
    chrome.looks(page)
    page.evaluate(AXE)
    judged = page.evaluate("async () => (({ violations, passes }) => ({ violations, passes }))(await axe.run())")
    assert len(judged["passes"]) > 10, f"axe-core has judged only {len(judged['passes'])} rules"
    serious = [
        (rule["id"], rule["help"], [node["html"] for node in rule["nodes"]])
        for rule in judged["violations"]
        if rule["impact"] in ("serious", "critical")
    ]
    assert not serious, (page.url, serious)


ENGLISH = set((Path(__file__).parents[3] / "gateway/tests/english.txt").read_text().split())


def speaks(page) -> None:
    """No English and no decimal point is left on a page in another language."""
    chosen = page.locator("html").get_attribute("lang")
    assert chosen in ("es", "ca"), chosen
    labels = "[...document.querySelectorAll('[aria-label]')].map((element) => element.ariaLabel).join(' ')"
    text = page.title() + " " + page.locator("body").inner_text() + " " + page.evaluate(labels)
    # What stands in backticks is to be typed, and a code may spell a word.
    prose = re.sub("`[^`]*`|[A-Z0-9]{4}(-[A-Z0-9]{4})+", "", text)
    words = set(re.findall(r"[^\W\d_]+", prose.lower())) & ENGLISH
    points = re.findall(r"\d\.\d+ (?:[MG]B|[kM]bit/s|ms|%)", text)
    assert not words and not points, (chosen, words, points, text)


def choose(page, code: str) -> None:
    """Another language by the form of the page."""
    page.locator("#language").select_option(code)
    page.locator("header form.language button").click()
    expect(page.locator("html")).to_have_attribute("lang", code)


def refused(page) -> None:
    """Forms that ask for what cannot be are answered in the language of the page."""
    code = page.locator("html").get_attribute("lang")
    wrong = {
        "/revoke": ("#revoke-name", "Núria"),
        "/invite": ("#invite-name", "a b"),
        "/vouchers": ("#voucher-count", "0"),
    }
    for form, (field, value) in wrong.items():
        page.locator(field).fill(value)
        page.locator(f"form.fields[action='{form}'] button").click()
        expect(page.get_by_role("alert")).to_contain_text("Núria" if form == "/revoke" else "1")
        speaks(page)
        page.screenshot(path=pictures / f"refused{form.replace('/', '-')}-{code}.png")
        page.goto(url)


def looks_everywhere(page) -> None:
    """The same, light and dark, wide and narrow; the page is then as it was."""
    before = page.viewport_size
    scheme = "dark" if page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") else "light"
    for width in (1280, 320):
        page.set_viewport_size({"width": width, "height": 800})
        for colours in ("light", "dark"):
            page.emulate_media(color_scheme=colours)
            looks(page)
    page.set_viewport_size(before)
    page.emulate_media(color_scheme=scheme)


def log_in(page, given: str) -> None:
    page.goto(url)
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(given)
    page.keyboard.press("Enter")


def speaks_at_the_door(browser, code: str) -> None:
    """Who logs in is answered in the language of the browser."""
    page = browser.new_context(locale=f"{code}-ES").new_page()
    page.goto(url)
    speaks(page)
    page.locator("#name").fill("nadie")
    page.locator("#password").fill("x")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_be_visible()
    speaks(page)
    page.screenshot(path=pictures / f"login-{code}.png")
    page.context.close()


def codes(page, browser) -> str:
    """Somebody is invited, whatever his name, and finds his page; vouchers fit on the paper. Returns the proxy."""
    page.locator("#invite-name").fill("a b")
    page.get_by_role("button", name="Invite", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("cannot be invited")
    looks(page)
    page.locator("#invite-name").fill("<b>eva</b>")
    page.locator("#invite-gb").fill("0,5")
    page.get_by_role("button", name="Invite", exact=True).click()
    expect(page.locator("h1")).to_have_text("<b>eva</b> is invited")
    expect(page.locator("main")).to_contain_text("500.0 MB")
    expect(page.locator(".qr svg")).to_be_visible()
    looks_everywhere(page)
    page.screenshot(path=pictures / "invited.png", full_page=True)
    link = page.locator("#link").inner_text()
    assert link.endswith("/c/" + page.locator("#code").inner_text().replace("-", "")), link

    eva = browser.new_context(locale="ca-ES", viewport={"width": 320, "height": 700}, color_scheme="light").new_page()
    asked = []
    eva.on("request", lambda request: asked.append(request.url))
    eva.goto(link)
    expect(eva.locator("#state")).to_contain_text("Vas")
    expect(eva.locator("main")).to_contain_text("Sense usar: el seu temps comença amb el primer ús.")
    expect(eva.locator("main")).to_contain_text("<b>eva</b>")
    speaks(eva)
    looks_everywhere(eva)
    eva.screenshot(path=pictures / "neighbour-320.png", full_page=True)
    eva.get_by_role("link", name="English").click()
    expect(eva.locator("html")).to_have_attribute("lang", "en")
    assert all(address.startswith((link.partition("/c/")[0], "data:")) for address in asked), asked
    eva.context.close()

    page.get_by_role("link", name="Back").click()
    page.locator("#voucher-count").fill("12")
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Make vouchers to print").click()
    file = pictures / "vouchers.html"
    waiting.value.save_as(file)
    sheet = browser.new_context().new_page()
    sheet.goto(file.absolute().as_uri())
    assert sheet.locator("li").count() == 12 and sheet.locator("li svg").count() == 12
    looks(sheet)
    paper = sheet.pdf(path=pictures / "vouchers.pdf", prefer_css_page_size=True)
    assert len(re.findall(rb"/Type\s*/Page[^s]", paper)) == 2, "ten a page"
    cut = "[...document.querySelectorAll('li')].filter((li) => li.scrollHeight > li.clientHeight).length"
    assert sheet.evaluate(cut) == 0, "everything is in its place"
    sheet.screenshot(path=pictures / "vouchers.png", full_page=True)
    sheet.context.close()
    return link.partition("/c/")[0]


def cap_reached(page, browser, proxy: str) -> None:
    """Who has used the day's volume is paused: the owner sees it, the neighbour reads why and until when."""
    jordi = page.locator("#user-rows tr", has_text="jordi")
    expect(jordi).to_contain_text("paused")
    expect(page.locator("#user-rows tr", has_text="maria")).not_to_contain_text("paused")
    card = page.locator("section", has=page.locator("#user-rows"))
    card.screenshot(path=pictures / "cap-owner.png")
    given = {"username": "jordi", "password": password}
    words = {
        "en-GB": (
            "You are paused.",
            "You have used nearly all, or all, of what you may use today.",
            "You are served again: ",
        ),
        "es-ES": ("Estás en pausa.", "Lo que puedes usar hoy está casi o del todo usado.", "Sigue: "),
        "ca-ES": ("Estàs en pausa.", "El que pots usar avui està gairebé o del tot usat.", "Continua: "),
    }
    for locale, (state, why, goes_on) in words.items():
        neighbour = browser.new_context(locale=locale, http_credentials=given).new_page()
        neighbour.goto(proxy)
        expect(neighbour.locator("#state")).to_have_text(state)
        expect(neighbour.locator("main")).to_contain_text(why)
        expect(neighbour.locator("main")).to_contain_text(re.compile(goes_on + r"\d"))
        if locale != "en-GB":
            speaks(neighbour)
        looks_everywhere(neighbour)
        neighbour.screenshot(path=pictures / f"cap-{locale}.png", full_page=True)
        neighbour.context.close()


def access(page) -> None:
    """A neighbour is kept out and let in again, whether he has come or not; no button moves away meanwhile."""
    maria = page.locator("#user-rows tr", has_text="maria")
    button = maria.get_by_role("button", name="Take access away: maria")
    button.focus()
    time.sleep(3)
    expect(button).to_be_focused()
    page.keyboard.press("Enter")
    expect(maria).to_contain_text("no access")
    expect(maria.locator("td").nth(3)).not_to_have_text("0")
    page.screenshot(path=pictures / "revoked.png", full_page=True)
    looks(page)
    maria.get_by_role("button", name="Give access back: maria").click()
    expect(maria).not_to_contain_text("no access")
    used = maria.locator("td").nth(1).inner_text()
    expect(maria.locator("td").nth(1)).not_to_have_text(used)

    eva = page.locator("#user-rows tr", has_text="<b>eva</b>")
    for given, expected in (("nobody here", page.get_by_role("alert")), ("<b>eva</b>", eva)):
        page.locator("#revoke-name").fill(given)
        page.get_by_role("button", name="Take access away", exact=True).click()
        expect(expected).to_contain_text("nobody is called" if given != "<b>eva</b>" else "no access")
    eva.get_by_role("button", name="Give access back").click()
    expect(eva).to_have_count(0)


def limits(page) -> None:
    """A limit that is set on the page holds at once, until it is taken back; a wrong one is refused in words."""
    maria = page.locator("#user-rows tr", has_text="maria")
    forms = page.locator("form.limit")
    expect(forms).to_have_count(4)
    expect(forms.nth(1).get_by_label("Mbit/s")).to_have_value("4")
    jordi = page.get_by_role("form", name="jordi")
    expect(jordi.get_by_label("GB a day")).to_have_value("0.001")
    another = forms.last
    another.get_by_label("Name or address").fill("maria")
    another.get_by_label("GB a day").fill("much")
    another.get_by_role("button", name="Set the limit").click()
    expect(page.get_by_role("alert")).to_have_text("GB a day and Mbit/s are numbers above 0.")
    another.get_by_label("Name or address").fill("maria")
    another.get_by_label("GB a day").fill("0,001")
    page.keyboard.press("Enter")
    hers = page.get_by_role("form", name="maria")
    expect(hers.get_by_label("GB a day")).to_have_value("0.001")
    expect(maria).to_contain_text("paused")
    looks_everywhere(page)
    page.locator("section", has=page.locator("#limits")).screenshot(path=pictures / "limits.png")
    hers.get_by_role("button", name="As in the configuration").click()
    expect(hers).to_have_count(0)
    expect(maria).not_to_contain_text("paused")


def history(page) -> None:
    """Who used how much, also before the start of this gateway."""
    page.get_by_role("link", name="History").click()
    expect(page.locator("main tr", has_text="maria").first).to_contain_text(re.compile(r"[1-9][\d.]* MB"))
    expect(page.locator("main")).to_contain_text("30 days")
    assert page.locator("main script, main img").count() == 0
    looks_everywhere(page)
    page.screenshot(path=pictures / "history.png", full_page=True)
    for code in ("es", "ca", "en"):
        choose(page, code)
        page.goto(url + "/history")
        if code != "en":
            speaks(page)
    page.get_by_role("link", name="Back").click()


def reload(page) -> None:
    """Another configuration holds at once; one that cannot hold is refused in words."""
    text = config.read_text()
    again = page.get_by_role("button", name="Read the configuration again")
    config.write_text(text.replace('daily = "20 GB"', 'daily = "30 GB"'))
    again.click()
    expect(page.get_by_role("status")).to_have_text("The configuration was read again and is in use.")
    expect(page.locator("#volumes")).to_contain_text("used of 30.00 GB")
    page.screenshot(path=pictures / "reloaded.png", full_page=True)
    looks(page)
    config.write_text(text.replace("vouchers = true", "vouchers = false"))
    again.click()
    expect(page.get_by_role("alert")).to_contain_text("vouchers cannot change while the gateway runs")
    config.write_text(text)


def peers(page) -> None:
    """One of the other gateways answers until it is killed, the other one never."""
    first, second = (page.locator("#peer-rows tr").nth(at) for at in (0, 1))
    expect(first.locator(".called")).to_have_text("<b>Attic</b>")
    expect(first.locator(".address")).to_contain_text("127.0.0.1:")
    expect(second.locator(".called")).to_be_empty()
    expect(first.locator(".standing")).to_have_text("shares")
    expect(first.locator("td").nth(1)).to_have_text("0")
    expect(first.locator("td").last).to_contain_text("20")
    expect(second.locator(".standing")).to_have_text("does not answer")
    expect(second.locator(".error")).to_contain_text("refused")
    expect(second.locator("td").last).to_have_text("never")
    looks_everywhere(page)
    card = page.locator("#peer-card")
    card.screenshot(path=pictures / "peers-light.png")
    Path(restart).with_suffix(".peer").touch()
    expect(first.locator(".standing")).to_have_text("does not answer")
    expect(first.locator(".error")).to_contain_text("refused")
    expect(first.locator("td").last).to_contain_text("20")
    page.reload()
    expect(first.locator(".standing")).to_have_text("does not answer")
    before = page.viewport_size
    page.emulate_media(color_scheme="dark")
    card.screenshot(path=pictures / "peers-dark.png")
    page.set_viewport_size({"width": 320, "height": 700})
    card.screenshot(path=pictures / "peers-320.png")
    page.set_viewport_size(before)
    page.emulate_media(color_scheme="light")


def another(page, arguments: str) -> None:
    """Another gateway takes the place of the one that runs, and the owner logs in again."""
    started = Path(restart)
    started.with_suffix(".new").write_text(arguments)
    started.with_suffix(".new").rename(started)
    page.wait_for_url("**/login", timeout=60_000)
    while started.exists():
        time.sleep(0.1)
    log_in(page, password)


def main() -> None:
    with chrome.opened(chromium) as (browser, context):
        page = context.new_page()
        asked, faults = [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda message: "Content Security" in message.text and faults.append(message.text))
        page.on("dialog", lambda dialog: faults.append("a name was run as a script"))

        log_in(page, "not the password")
        expect(page.get_by_role("alert")).to_have_text("The name or the password is wrong.")
        looks_everywhere(page)
        assert not page.context.cookies(), "no session for a wrong password"

        log_in(page, password)
        state = page.locator("#state")
        expect(state).to_have_text("Sharing is on")
        cookie = context.cookies()[0]
        assert cookie["httpOnly"] and cookie["sameSite"] == "Strict", cookie

        # Names are text, whatever they are.
        expect(page.locator("#user-rows")).to_contain_text("<script>alert(1)</script>")
        expect(page.locator("#user-rows")).to_contain_text('"><img/src=x/onerror=alert(2)>')
        assert page.locator("#user-rows script, #user-rows img").count() == 0
        expect(page.locator("#chart canvas")).to_be_visible()
        expect(page.locator("#volumes")).to_contain_text("used of")
        # On a busy machine the rate may be small, as the gateway takes waits for the processor for queues.
        expect(page.locator("#rate-down")).to_have_text(re.compile(r"^[1-9][\d.,]* [kM]bit/s$"))
        time.sleep(8)
        page.screenshot(path=pictures / "page-light.png", full_page=True)
        looks_everywhere(page)

        peers(page)
        proxy = codes(page, browser)
        page.goto(url)
        cap_reached(page, browser, proxy)
        access(page)
        limits(page)
        history(page)
        reload(page)
        page.goto(url)
        page.bring_to_front()

        # By the keyboard alone: the first stop skips to the content, the next in it pauses.
        page.keyboard.press("Tab")
        expect(page.locator(".skip")).to_be_focused()
        page.get_by_role("button", name="for 1 hour").focus()
        page.keyboard.press("Enter")
        expect(state).to_contain_text("Sharing is paused until")
        page.get_by_role("button", name="Resume sharing").click()
        expect(state).to_have_text("Sharing is on")
        page.get_by_role("button", name="until I resume").click()
        expect(state).to_have_text("Sharing is paused until you resume it")

        # Narrow and dark, in each language.
        page.set_viewport_size({"width": 320, "height": 700})
        page.emulate_media(color_scheme="dark")
        languages = {"es": "Compartir está en pausa", "ca": "Compartir està en pausa", "en": "Sharing is paused"}
        for code, words in languages.items():
            choose(page, code)
            expect(state).to_contain_text(words)
            time.sleep(2)
            gone = {"es": "no responde", "ca": "no respon", "en": "does not answer"}[code]
            expect(page.locator("#peer-rows .standing").first).to_have_text(gone)
            note = {"es": "indícalas como `home`", "ca": "indica-les com a `home`", "en": "give them as `home`"}[code]
            expect(page.locator("section[aria-labelledby=notes]")).to_contain_text(note)
            looks(page)
            page.screenshot(path=pictures / f"page-320-{code}.png", full_page=True)
            if code != "en":
                speaks(page)
                refused(page)
                speaks_at_the_door(browser, code)

        # A form without this session's token changes nothing.
        answer = page.request.post(url + "/resume", form={"csrf": "0" * 64})
        assert answer.ok and "too old" in answer.text(), answer.status
        expect(state).to_contain_text("Sharing is paused")

        # Another gateway in its place knows no session, and is still paused.
        another(page, "")
        expect(state).to_contain_text("Sharing is paused")
        page.get_by_role("button", name="Log out").click()
        page.wait_for_url("**/login")
        page.goto(url)
        page.wait_for_url("**/login")

        # One that only observes has nothing to pause, and says what it has seen.
        log_in(page, password)
        expect(state).to_contain_text("Sharing is paused")
        another(page, "--observe")
        expect(state).to_have_text("Only observing: no neighbour is let through")
        expect(page.get_by_role("button", name="for 1 hour")).to_have_count(0)
        seconds = page.locator("#observed dd").first
        before = seconds.inner_text()
        expect(seconds).not_to_have_text(before)
        looks_everywhere(page)
        page.screenshot(path=pictures / "observing.png", full_page=True)
        for code in ("es", "ca"):
            choose(page, code)
            time.sleep(2)
            speaks(page)
            page.screenshot(path=pictures / f"observing-{code}.png", full_page=True)

        elsewhere = {address for address in asked if not address.startswith((url, "data:"))}
        assert not elsewhere, elsewhere
        assert not faults, faults
    print("ok")


main()

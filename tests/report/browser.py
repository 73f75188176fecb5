# SPDX-FileCopyrightText: The capstone authors
# SPDX-License-Identifier: Apache-2.0
"""Renders every page of a report in headless Chromium, at 390 and 1440 pixels, light and dark. A page fails
on a console message of level error, a request to the network, a document wider than its window, a folded part
that is so once opened, or a text whose contrast with what it lies on is below 4.5:1. Screenshots stay in the
build folder.

browser.py [REPORT]   a report's folder; without it, one is made from synthetic records
browser.py --self-test  a planted fault of each kind must be caught
The browser is $CAPSTONE_CHROMIUM, or chromium, chromium-browser, google-chrome on the PATH. It is driven over
a pair of pipes (--remote-debugging-pipe), so no package is needed."""

import base64
import fcntl
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import support

WIDTHS, SCHEMES = {390: 844, 1440: 900}, ("light", "dark")

# Runs in the page. A text's ground is the nearest ancestor's background
# that is not transparent; SVG text has fill.
PROBE = """(() => {
  for (const d of document.querySelectorAll('details')) d.open = OPENED;
  const probe = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgba = colour => { probe.clearRect(0, 0, 1, 1); probe.fillStyle = colour; probe.fillRect(0, 0, 1, 1);
                           return [...probe.getImageData(0, 0, 1, 1).data]; };
  const light = c => { const [r, g, b] = c.slice(0, 3).map(v => v / 255).map(
      v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
      return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ground = e => { for (; e; e = e.parentElement) { const c = rgba(getComputedStyle(e).backgroundColor);
                        if (c[3] === 255) return c; } return [255, 255, 255, 255]; };
  const low = new Map(); let texts = 0;
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n = walk.nextNode(); n; n = walk.nextNode()) {
    const e = n.parentElement;
    const name = e.tagName.toLowerCase();
    if (!n.data.trim() || !e.getClientRects().length || name === 'style' || name === 'title') continue;
    texts++;
    const style = getComputedStyle(e);
    const colour = rgba(e instanceof SVGElement ? style.fill : style.color);
    const [a, b] = [light(colour), light(ground(e))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5 || colour[3] < 255) low.set(e.tagName + ' "' + n.data.trim().slice(0, 40) + '"', ratio);
  }
  return {wide: document.documentElement.scrollWidth, window: innerWidth, texts,
          height: document.documentElement.scrollHeight, low: [...low]};
})()"""


def find_browser():
    for name in (os.environ.get("CAPSTONE_CHROMIUM"), "chromium", "chromium-browser", "google-chrome"):
        if name and shutil.which(name):
            return shutil.which(name)
    support.skip("there is no Chromium on this machine")


class Browser:
    """One headless browser with one page, spoken to in messages that end in a zero byte."""

    def __init__(self, program, folder):
        to_child, self.to = os.pipe()
        self.back, from_child = os.pipe()
        # The browser reads from descriptor 3 and writes to 4. Both stay taken here until it runs, so that
        # neither is given to subprocess's own pipe; the copies have numbers that cannot overwrite each other.
        copies = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in (to_child, from_child)]

        def give():
            for number, copy in enumerate(copies, 3):
                os.dup2(copy, number)

        self.log = open(folder / "chromium.log", "w")
        self.process = subprocess.Popen(
            [
                program,
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                "--no-first-run",
                "--disable-dev-shm-usage",
                "--disable-background-networking",
                "--remote-debugging-pipe",
                f"--user-data-dir={folder / 'profile'}",
                "about:blank",
            ],
            stderr=self.log,
            stdout=self.log,
            preexec_fn=give,
            close_fds=False,
        )
        for fd in (to_child, from_child, *copies):
            os.close(fd)
        self.number, self.session, self.events, self.rest = 0, None, [], b""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def _next(self):
        while b"\0" not in self.rest:
            data = os.read(self.back, 1 << 20)
            if not data:
                sys.exit(f"Chromium ended; its words are in {self.log.name}")
            self.rest += data
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)

    def ask(self, method, **arguments):
        self.number += 1
        message = {"id": self.number, "method": method, "params": arguments}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self.number:
                if "error" in answer:
                    sys.exit(f"Chromium refuses {method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def open(self, url, width, height, scheme):
        """Loads a page; gives what its console and network said against it."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.events.clear()
        self.ask("Page.navigate", url=url)
        # The load event may be that of the page before; only the document itself knows.
        here = json.dumps(url)
        while not self.evaluate(f"location.href === {here} && document.readyState === 'complete'"):
            time.sleep(0.01)
        self.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
        return [said for event in self.events for said in complaints(event)]

    def evaluate(self, script):
        result = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            sys.exit(f"the probe failed: {result['exceptionDetails']}")
        return result["result"].get("value")

    def screenshot(self, path, width, height):
        clip = {"x": 0, "y": 0, "width": width, "height": min(height, 16000), "scale": 1}
        path.write_bytes(
            base64.b64decode(
                self.ask("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"]
            )
        )

    def close(self):
        self.session = None
        self.ask("Browser.close")
        self.process.wait(30)
        self.log.close()


def complaints(event):
    method, params = event.get("method"), event.get("params", {})
    if method == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
        yield "console: " + " ".join(str(a.get("value", a.get("description"))) for a in params["args"])
    if method == "Runtime.exceptionThrown":
        yield "exception: " + params["exceptionDetails"]["text"]
    if method == "Log.entryAdded" and params["entry"]["level"] == "error":
        yield "log: " + params["entry"]["text"]
    if method == "Network.requestWillBeSent" and params["request"]["url"].split(":")[0] not in (
        "file",
        "data",
        "about",
    ):
        yield "network: " + params["request"]["url"]


def check_page(browser, path, name, shots=None):
    """Every complaint about a page."""
    found = []
    for width, height in WIDTHS.items():
        for scheme in SCHEMES:
            said = browser.open(path.resolve().as_uri(), width, height, scheme)
            for opened in ("false", "true"):
                seen = browser.evaluate(PROBE.replace("OPENED", opened))
                if opened == "false" and shots:
                    browser.screenshot(
                        shots / f"{name}.{width}.{scheme}.png".replace("/", "_"), width, seen["height"]
                    )
                if seen["wide"] > seen["window"]:
                    said.append(f"the document is {seen['wide']} pixels wide")
                if not seen["texts"]:
                    said.append("there is no text")
                said += [f"contrast {ratio:.2f}: {text}" for text, ratio in seen["low"]]
            found += [f"{name} at {width}, {scheme}: {text}" for text in dict.fromkeys(said)]
    return found


def check_report(browser, report, shots):
    pages = sorted(report.rglob("*.html"))
    if not pages:
        sys.exit(f"{report} holds no page")
    found = []
    for page in pages:
        found += check_page(browser, page, page.relative_to(report).with_suffix("").as_posix(), shots)
    return pages, found


GOOD = "<!doctype html><html><head><title>t</title><link rel=icon href='data:,'></head><body>%s</body></html>"
PLANTS = {
    "a console error": "<p>text</p><script>console.error('planted')</script>",
    "an exception": "<p>text</p><script>throw new Error('planted')</script>",
    "a file that is not there": "<p>text</p><img src='nowhere.png' alt=''>",
    "a request to the network": "<p>text</p><img src='http://127.0.0.1:9/x.png' alt=''>",
    "a document too wide": "<div style='width: 1500px'>text</div>",
    "a folded part too wide": (
        "<details><summary>more</summary><div style='width: 1500px'>text</div></details>"
    ),
    "grey text": "<p style='color: #999'>text</p>",
    "grey text in a figure": "<svg width=50 height=20><text y=15 style='fill: #999'>text</text></svg>",
    "black text in a dark figure": (
        "<style>@media (prefers-color-scheme: dark) {body {background: #111; color: #fff}}"
        "</style><svg width=50 height=20><text y=15 fill='#000'>text</text></svg>"
    ),
    "nothing": "",
}


def self_test(browser, folder):
    page = folder / "page.html"
    page.write_text(
        GOOD % "<p>text</p><div style='overflow-x: auto'><div style='width: 1500px'>t</div></div>"
    )
    missed = [f"false alarm: {text}" for text in check_page(browser, page, "a good page")]
    for what, body in PLANTS.items():
        page.write_text(GOOD % body)
        if not check_page(browser, page, what):
            missed.append(f"not caught: {what}")
    support.fail_if(missed, f"{len(PLANTS)} planted faults, each caught; none in a good page")


def main():
    arguments = sys.argv[1:]
    program = find_browser()
    with tempfile.TemporaryDirectory() as scratch:
        browser = Browser(program, pathlib.Path(scratch))
        try:
            if arguments == ["--self-test"]:
                self_test(browser, pathlib.Path(scratch))
                return
            folder = support.fresh("report_browser")
            report = pathlib.Path(arguments[0]) if arguments else support.synthetic_report(folder)
            shots = folder / "screenshots"
            shots.mkdir()
            pages, found = check_report(browser, report, shots)
            support.fail_if(
                found, f"{len(pages)} pages at {len(WIDTHS)} widths, light and dark; pictures in {shots}"
            )
        finally:
            browser.close()


if __name__ == "__main__":
    main()

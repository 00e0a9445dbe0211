"""Debian's chromium for the tests of the dashboard, driven by selenium without a display."""

import os

from harness import PATIENCE, skip_or_fail, wait_until

try:
    from selenium import webdriver
    from selenium.common.exceptions import WebDriverException
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ImportError:
    webdriver = None

CHROMIUM, DRIVER = "/usr/bin/chromium", "/usr/bin/chromedriver"
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
         "--disable-background-networking", "--no-first-run", "--force-device-scale-factor=1")
NOT_READY = "the page is not as expected"


def start_browser():
    if webdriver is None or not os.path.exists(CHROMIUM) or not os.path.exists(DRIVER):
        skip_or_fail("chromium, chromium-driver and python3-selenium are not installed; run scripts/setup test")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    options.accept_insecure_certs = True
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(service=Service(DRIVER), options=options)
    driver.set_page_load_timeout(PATIENCE)
    driver.set_script_timeout(PATIENCE)
    return driver


class Page:
    """The dashboard in a browser. What it shows is waited for, never slept for."""

    def __init__(self, driver):
        self.driver = driver
        self.scheme = "http"

    def open(self, node, page="overview"):
        self.driver.get("about:blank")  # otherwise only the part after # changes
        self.driver.get(f"{self.scheme}://{node.client}/#/{page}")
        return self

    def go(self, page):
        self.js("location.hash = arguments[0]", f"#/{page}")
        return self

    def js(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all_text(self, selector):
        return self.js("return Array.from(document.querySelectorAll(arguments[0]), (e) => e.innerText)", selector)

    def text(self, selector="body"):
        return "\n".join(self.all_text(selector))

    def wait_text(self, selector, *texts):
        """All of them in elements of the selector."""
        return wait_until(lambda: all(text in self.text(selector) for text in texts),
                          lambda: f"{texts} in {selector}: {self.text(selector)[:2000]}\n{self.errors()}")

    def wait_for(self, condition, what=NOT_READY):
        """`condition` may fail while elements are being replaced."""
        def holds():
            try:
                return condition()
            except WebDriverException:
                return None
        return wait_until(holds, lambda: f"{what}: {self.text()[:2000]}\n{self.errors()}")

    def click(self, selector):
        def clicked():
            self.find(selector).click()
            return True
        self.wait_for(clicked, f"{selector} can be clicked")

    def type(self, selector, text):
        element = self.find(selector)
        element.clear()
        element.send_keys(text)

    def press(self, *keys):
        self.driver.switch_to.active_element.send_keys(*keys)

    def focused(self):
        return self.js("return document.activeElement.id || document.activeElement.getAttribute('role') || document.activeElement.tagName")

    def errors(self):
        """Of the console: scripts that failed, what the policy refused, requests without success."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]

    def size(self, width, height, mobile=False):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile})

    def scheme_of_system(self, name):
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": name}]})

    def close(self):
        self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
        self.driver.get("about:blank")


# The contrast of every visible text with what lies behind it, as WCAG 2.1 computes it. Returns what is too low.
CONTRAST = """
const channels = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
const luminance = ([r, g, b]) => [r, g, b].map((c) => c / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
function ground(element) {
  for (let e = element; e; e = e.parentElement) {
    const shape = e.tagName === "g" && e.querySelector("rect");
    if (shape) return channels(getComputedStyle(shape).fill);
    const color = channels(getComputedStyle(e).backgroundColor);
    if (color.length === 3 || color[3] === 1) return color;
    if (color.length === 4 && color[3] > 0) throw new Error("a translucent ground: " + e.className);
  }
  return [255, 255, 255];
}
const low = [];
let seen = 0;
for (const element of document.querySelectorAll("body *")) {
  const own = Array.from(element.childNodes).some((n) => n.nodeType === 3 && n.data.trim() !== "");
  if ((!own && !element.placeholder) || !element.checkVisibility({ visibilityProperty: true }) || element.closest(".hidden, .skip")) continue;
  const style = getComputedStyle(element);
  const isSvg = element instanceof SVGElement;
  const color = channels(element.placeholder && !own ? getComputedStyle(element, "::placeholder").color : isSvg ? style.fill : style.color);
  const [a, b] = [luminance(color), luminance(ground(element))];
  const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  const size = parseFloat(style.fontSize);
  const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
  seen++;
  if (contrast < (isLarge ? 3 : 4.5)) low.push(`${element.tagName}.${element.getAttribute("class")} "${element.textContent.slice(0, 30)}" ${contrast.toFixed(2)}`);
}
return { seen, low };
"""


def log_in(page, token, tenant=""):
    page.wait_for(lambda: page.find("#token").is_displayed(), "the form for a token")
    page.type("#token", token)
    page.type("#tenant", tenant)
    page.press(Keys.ENTER)

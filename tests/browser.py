"""Headless Chromium for tests of pages."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def opened(page: Path) -> Iterator["Page"]:
    """Open a file; skip where there is no Chromium with its driver."""
    chromium, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and chromedriver):
        pytest.skip("Chromium is not installed (Debian: apt-get install chromium chromium-driver)")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(flag)
    options.add_argument("--window-size=1280,1000")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(chromedriver))
    try:
        driver.get(page.resolve().as_uri())
        yield Page(driver)
    finally:
        driver.quit()


class Page:
    """A page and what it did; ``driver`` is Selenium's."""

    def __init__(self, driver):
        self.driver = driver
        self._requests: list[str] = []

    def find(self, selector: str):
        return self.driver.find_element("css selector", selector)

    def run(self, script: str, *arguments):
        """Run JavaScript and return what it returns."""
        return self.driver.execute_script(script, *arguments)

    def console(self) -> list[str]:
        """Errors and warnings so far, each once."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Addresses asked for so far, other than the page itself and data: URLs."""
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                self._requests.append(message["params"]["request"]["url"])
        own = self.driver.current_url
        return [u for u in self._requests if u != own and not u.startswith(("data:", "blob:"))]

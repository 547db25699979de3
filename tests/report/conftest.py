"""A headless Chromium, where one is installed."""

import shutil

import pytest

HOW = (
  "needs Chromium, its driver and selenium (Debian: apt install chromium chromium-driver; "
  "pip install 'jaxrobust[browser]')"
)


@pytest.fixture(scope="session")
def browser():
  webdriver = pytest.importorskip("selenium.webdriver", reason=HOW)
  driver = shutil.which("chromedriver")
  chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
  if driver is None or chromium is None:
    pytest.skip(HOW)
  options = webdriver.ChromeOptions()
  options.binary_location = chromium
  for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1300,900"):
    options.add_argument(word)
  options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
  window = webdriver.Chrome(options=options, service=webdriver.chrome.service.Service(driver))
  window.set_page_load_timeout(120)
  yield window
  window.quit()

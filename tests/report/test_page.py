"""The shell of every report, in a real browser."""

import json

import pytest

from tensor_rpca.report.page import write_page
from tests.browser import opened


@pytest.fixture
def page(tmp_path):
    def write(**parts):
        path = tmp_path / "page.html"
        write_page(path, parts.pop("title", "Page"), parts.pop("body", "<p>text</p>"), **parts)
        return path

    return write


def test_data_reaches_the_script_unharmed(page):
    data = {"evil": "</script><script>document.title = 'broken'</script>", "n": [1.5, None, "ü"]}
    with opened(page(data=data, script="document.body.dataset.got = JSON.stringify(DATA);")) as p:
        assert json.loads(p.find("body").get_attribute("data-got")) == data
        assert p.driver.title == "Page"
        assert p.console() == []
        assert p.requests() == []


def test_a_title_is_text(page):
    with opened(page(title="<b>a & b</b>")) as p:
        assert p.driver.title == "<b>a & b</b>"


def test_nothing_is_fetched(page):
    with opened(page(body='<img src="https://example.invalid/x.png">')) as p:
        assert any("Content Security Policy" in line for line in p.console())


def test_refuses_numbers_that_json_has_not(page):
    with pytest.raises(ValueError, match="JSON"):
        page(data=float("nan"))

"""What the search of the built site finds: the words are typed into its own field in a browser."""

from time import sleep

OPENED_S, ANSWERED_S, STEP_S = 30, 20, 0.2
FIELD = """const root = [...document.querySelectorAll("*")].map((e) => e.shadowRoot)
  .find((r) => r?.querySelector("[role=combobox]"));"""
READY = f"{FIELD} return Boolean(root);"
TYPE = f"""{FIELD} const field = root.querySelector("[role=combobox]"); field.value = arguments[0];
field.dispatchEvent(new InputEvent("input", {{bubbles: true, composed: true}}));"""
READ = f"""{FIELD} return [...root.querySelectorAll("[role=listbox] a")]
  .map((a) => new URL(a.href).pathname.replace(/^[/]|[/]$/g, ""));"""


def until(ask, limit):
    """The first answer that is something and the same twice."""
    before = None
    for _ in range(int(limit / STEP_S)):
        now = ask()
        if now and now == before:
            return now
        before = now
        sleep(STEP_S)
    return before


def open_search(browser, address):
    """Open the site and its search."""
    browser.get(address)
    browser.execute_script("document.querySelector('.md-search__button').click()")
    assert until(lambda: browser.execute_script(READY), OPENED_S)


def found_pages(browser, query):
    """The pages that a query finds, the best first, each once."""
    browser.execute_script(TYPE, "")
    sleep(2 * STEP_S)
    browser.execute_script(TYPE, query)
    return list(dict.fromkeys(until(lambda: browser.execute_script(READ), ANSWERED_S) or []))

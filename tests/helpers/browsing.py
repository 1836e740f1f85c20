"""What a browser shows of a page or a drawing; text that is overprinted, pale or cut off there."""

LEAST_CONTRAST = 4.5
"""WCAG 2.2, level AA, of text."""

LOOK = """
const visible = (node) => node.checkVisibility() && node.getBoundingClientRect().width > 0;
const box = (r) => [r.left, r.top, r.right, r.bottom];
const inSvg = (node) => node.ownerSVGElement && visible(node);
const all = (selector) => [...document.querySelectorAll(selector)];
const grounds = all('svg rect').filter(visible).map((r) => ({box: box(r.getBoundingClientRect()),
  fill: getComputedStyle(r).fill, paper: r.classList.contains('paper')}));
const texts = [];
for (const node of all('svg text').filter(visible))
  texts.push({text: node.textContent, box: box(node.getBoundingClientRect()),
    ink: getComputedStyle(node).fill, ground: null, svg: true,
    drawing: box(node.ownerSVGElement.getBoundingClientRect())});
const ground = (element) => {
  for (let e = element; e; e = e.parentElement) {
    const fill = getComputedStyle(e).backgroundColor;
    if (fill !== 'rgba(0, 0, 0, 0)') return fill;
  }
  return null;
};
if (document.body) {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, holder = node.parentElement;
    if (!node.textContent.trim() || holder.closest('svg') || !visible(holder)) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const r of range.getClientRects())
      texts.push({text: node.textContent.trim(), box: box(r), ink: getComputedStyle(holder).color,
        ground: ground(holder), svg: false});
  }
}
const line = (l) => {
  const m = l.getScreenCTM(), at = (x, y) => [m.a * x + m.e, m.d * y + m.f];
  return [...at(l.x1.baseVal.value, l.y1.baseVal.value), ...at(l.x2.baseVal.value, l.y2.baseVal.value)];
};
return {
  texts, grounds,
  circles: all('svg circle').filter(visible).map((c) => box(c.getBoundingClientRect())),
  lines: all('svg line.roof, svg line.leader').filter(visible).map(line),
  blocks: all('h1, h2, body > p, .warnings, .scroll, table').filter(visible).map((e) =>
    ({name: e.tagName + '.' + e.className, box: box(e.getBoundingClientRect())})),
  scrolls: all('.scroll').map((e) => [e.clientWidth, e.scrollWidth, getComputedStyle(e).overflowX]),
  page: [document.documentElement.scrollWidth, innerWidth],
  body: document.body ? ground(document.body) : null,
  resources: performance.getEntriesByType('resource').map((e) => e.name),
};
"""


def seen(browser, file, width, scheme):
    """What the browser shows of a file on a screen so wide."""
    screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    browser.get(file.as_uri())
    return browser.execute_script(LOOK)


def shrunk(box, by=1.0):
    return box[0] + by, box[1] + by, box[2] - by, box[3] - by


def overlap(a, b):
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def contains(outer, inner):
    return outer[0] <= inner[0] and outer[1] <= inner[1] and outer[2] >= inner[2] and outer[3] >= inner[3]


def crosses(line, box):
    """By points a third of a pixel apart."""
    x1, y1, x2, y2 = line
    steps = int(3 * max(abs(x2 - x1), abs(y2 - y1))) + 1
    points = ((x1 + (x2 - x1) * i / steps, y1 + (y2 - y1) * i / steps) for i in range(steps + 1))
    return any(box[0] < x < box[2] and box[1] < y < box[3] for x, y in points)


def overprinted(shown):
    """Texts that lie on other text, on a mark, on a line, or half on a segment of a bar."""
    texts = [(text["text"], shrunk(text["box"])) for text in shown["texts"]]
    segments = [ground["box"] for ground in shown["grounds"] if not ground["paper"]]
    for i, (name, box) in enumerate(texts):
        yield from (f"{name} on {other}" for other, place in texts[:i] if overlap(box, place))
        yield from (f"{name} on a mark" for mark in shown["circles"] if overlap(box, shrunk(mark)))
        yield from (f"{name} on a line" for line in shown["lines"] if crosses(line, box))
        halves = [place for place in segments if overlap(box, shrunk(place)) and not contains(place, box)]
        yield from (f"{name} half on a segment" for _ in halves)


def channels(colour):
    return [int(value) for value in colour.partition("(")[2].rstrip(")").split(",")[:3]]


def luminance(colour):
    """WCAG 2.2, "relative luminance"."""
    shares = [value / 255 for value in channels(colour)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(text, shown):
    """WCAG 2.2, "contrast ratio", to the last shape under the middle of the text, else to the page."""
    left, top, right, bottom = text["box"]
    point = (left + right) / 2, (top + bottom) / 2
    under = [ground["fill"] for ground in shown["grounds"] if contains(ground["box"], (*point, *point))]
    ground = text["ground"] or (under[-1] if under else shown["body"])
    light, dark = sorted((luminance(text["ink"]), luminance(ground)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def drawn_whole(text):
    """Whether a text of a drawing is cut off nowhere, to half a pixel."""
    left, top, right, bottom = text["drawing"]
    return contains((left - 0.5, top - 0.5, right + 0.5, bottom + 0.5), text["box"])


def pale(shown):
    """Texts by name whose contrast is too low."""
    contrasts = {text["text"]: contrast(text, shown) for text in shown["texts"]}
    return {name: ratio for name, ratio in contrasts.items() if ratio < LEAST_CONTRAST}

// Called with an SVG, font families and widths: what Chromium lays out. Shapes are in the drawing's own units.
const [source, families, widths] = arguments;
document.body.innerHTML = source;
const svg = document.querySelector('svg');
const style = document.body.appendChild(document.createElement('style'));
const templates = 'defs, pattern, clipPath, mask, marker, symbol';
const everything = [...svg.querySelectorAll('*')];
const order = new Map(everything.map((element, i) => [element, i]));
const drawn = everything.filter((element) => !element.closest(templates));
const texts = drawn.filter((element) => element.tagName === 'text');
const marks = drawn.filter((element) => element instanceof SVGGeometryElement);
window.measured = {texts, marks};

const shown = (width, family) => {
  const font = family ? `svg text{font-family:"${family}"!important}` : '';
  style.textContent = `body{margin:0} svg{display:block;width:${width}px;height:auto} ${font}`;
};
const boxes = {};
for (const family of families)
  for (const width of widths) {
    shown(width, family);
    const view = svg.getBoundingClientRect();
    const places = texts.map((text) => {
      const box = text.getBoundingClientRect();
      return [box.left - view.left, box.top - view.top, box.right - view.left, box.bottom - view.top];
    });
    boxes[`${family}/${width}`] = {view: [view.width, view.height], places};
  }
shown(widths[0], '');
const outer = svg.getScreenCTM().inverse();
const number = (shape, ...names) => names.map((name) => shape[name].baseVal.value);
const geometry = {
  rect: (shape) => number(shape, 'x', 'y', 'width', 'height', 'rx'),
  line: (shape) => number(shape, 'x1', 'y1', 'x2', 'y2'),
  circle: (shape) => number(shape, 'cx', 'cy', 'r'),
  ellipse: (shape) => number(shape, 'cx', 'cy', 'rx', 'ry'),
  path: (shape) => shape.getAttribute('d'),
  polyline: (shape) => shape.getAttribute('points'),
  polygon: (shape) => shape.getAttribute('points'),
};
const base = svg.viewBox.baseVal;
return {
  boxes,
  view: [base.x, base.y, base.width, base.height],
  texts: texts.map((text) => ({content: text.textContent, order: order.get(text)})),
  shapes: marks.map((shape) => {
    const {a, b, c, d, e, f} = outer.multiply(shape.getScreenCTM());
    return {tag: shape.tagName, name: shape.getAttribute('class') || '', order: order.get(shape),
      matrix: [a, b, c, d, e, f], geometry: geometry[shape.tagName](shape), data: {...shape.dataset}};
  }),
  foreign: everything.filter((element) => /^(foreignObject|image|script)$/.test(element.tagName)).length,
};

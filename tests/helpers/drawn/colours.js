// How the drawing that was measured last is painted in the scheme of the moment.
const opacity = (element) => {
  let all = 1;
  for (let e = element; e && e.tagName !== 'svg'; e = e.parentElement) all *= Number(getComputedStyle(e).opacity);
  return all;
};
return {
  texts: window.measured.texts.map((text) => {
    const style = getComputedStyle(text);
    return {fill: style.fill, size: parseFloat(style.fontSize)};
  }),
  shapes: window.measured.marks.map((shape) => {
    const style = getComputedStyle(shape), all = opacity(shape);
    return {fill: style.fill, filled: all * Number(style.fillOpacity), stroke: style.stroke,
      stroked: all * Number(style.strokeOpacity) * parseFloat(style.strokeWidth), dashes: style.strokeDasharray};
  }),
};

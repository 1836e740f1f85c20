// Folding: a box keeps its heading, and what stands below moves up.
const HEADING = 34;
const MIDDLE = 26; // what is centred below it is no heading
const boxes = [...svg.querySelectorAll("g[data-part], g[data-kind]")].map((group) => {
  const frame = group.querySelector(":scope > rect");
  const [x, top, width, height] = ["x", "y", "width", "height"].map((name) => Number(frame.getAttribute(name)));
  return { group, frame, left: x, right: x + width, top, bottom: top + height, height, moved: 0, folded: false };
});
const shownHeight = (box) => (box.folded ? Math.min(HEADING, box.height) : box.height);

// all else that is drawn: `holder` is the box in whose corner it stands, as a mark does
const loose = [...svg.children].flatMap((child) => (child.matches("g[data-model]") ? [...child.children] : [child]))
  .filter((child) => !child.matches("style, defs, title, g[data-part], g[data-kind]") && isShown(child))
  .map((element) => {
    const place = placeOf(element);
    const [x, y] = [(place.left + place.right) / 2, (place.top + place.bottom) / 2];
    const near = (box) => x > box.left - 3 && x < box.right + 3 && y > box.top - 3 && y < box.bottom + 3;
    return { element, ...place, moved: 0, holder: boxes.find(near) };
  });
const [ground, ...others] = loose;
const end = Math.max(0, ...boxes.map((box) => box.bottom));
const foot = others.filter((it) => it.top >= end - 1);
const still = others.filter((it) => it.top < end - 1 && !it.holder);
const overlaps = (a, b) => a.left < b.right && b.left < a.right;
const height = svg.viewBox.baseVal.height;

// each box as far up as what stands over it lets it, by the least gap that there was
const layOut = () => {
  const placed = [];
  for (const box of [...boxes].sort((a, b) => a.top - b.top)) {
    const over = [...still, ...placed].filter((it) => it.bottom <= box.top + 1 && overlaps(it, box));
    const gap = Math.min(...over.map((it) => box.top - it.bottom));
    const lowest = Math.max(...over.map((it) => it.bottom - (it.rise ?? 0)));
    box.moved = over.length ? Math.min(0, lowest + gap - box.top) : 0;
    box.rise = box.height - shownHeight(box) - box.moved;
    placed.push(box);
  }
  const bottoms = still.map((it) => it.bottom);
  const up = Math.max(...bottoms, ...boxes.map((box) => box.bottom - box.rise)) - Math.max(...bottoms, end);
  const shift = (element, by) => (by ? element.setAttribute("transform", `translate(0 ${by})`) : element.removeAttribute("transform"));
  for (const box of boxes) shift(box.group, box.moved);
  for (const it of others) shift(it.element, it.holder ? it.holder.moved : foot.includes(it) ? up : 0);
  svg.setAttribute("viewBox", `0 0 ${svg.viewBox.baseVal.width} ${height + up}`);
  svg.setAttribute("height", height + up);
};

const fold = (box, folded) => {
  box.folded = folded;
  box.group.classList.toggle("folded", folded);
  box.frame.setAttribute("height", shownHeight(box));
  box.toggle.setAttribute("aria-expanded", String(!folded));
  box.toggle.querySelector("path").setAttribute("d", folded ? "M-1.5 -3l3 3l-3 3" : "M-3 -1.5l3 3l3 -3");
};
const afterFolds = () => {
  layOut();
  markAgain();
  byId("fold").textContent = boxes.every((box) => box.folded) ? "Unfold all" : "Fold all";
};
const foldAll = () => {
  const open = boxes.some((box) => !box.folded);
  for (const box of boxes) fold(box, open);
  afterFolds();
};
const unfold = (group) => {
  const box = boxes.find((it) => it.group === group);
  if (!box?.folded) return;
  fold(box, false);
  afterFolds();
};

for (const box of boxes) {
  for (const child of box.group.children) {
    const { top, bottom } = placeOf(child);
    if (child !== box.frame && (top + bottom) / 2 > box.top + MIDDLE) child.classList.add("inside");
  }
  const [first, ...more] = box.group.querySelectorAll(":scope > text:not(.inside)");
  const heading = [first, ...more].map((text) => text.textContent).join(" ");
  const hit = shape("rect", { x: box.right - 13, y: box.top + 4, width: 12, height: 27, rx: 4 });
  const arrow = shape("g", { transform: `translate(${box.right - 6.5} ${first.getAttribute("y") - 4.5})` }, shape("path", {}));
  box.toggle = shape("g", { class: "toggle", role: "button", tabindex: "0", "aria-label": `Fold ${heading}` }, hit, arrow);
  box.toggle.addEventListener("click", () => {
    fold(box, !box.folded);
    afterFolds();
  });
  box.toggle.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    event.stopPropagation();
    box.toggle.dispatchEvent(new Event("click"));
  });
  box.group.append(box.toggle);
  fold(box, false);
}

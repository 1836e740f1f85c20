// The page: its buttons, keys and address.
const copy = async (text, button) => {
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // without leave to use the clipboard: the older way
    const area = document.body.appendChild(node("textarea"));
    area.value = text;
    area.select();
    document.execCommand("copy");
    area.remove();
    button.focus?.();
  }
  byId("copied").textContent = "copied";
  if (button.id !== "copy-command") button.textContent = "Copied";
  setTimeout(() => (button.textContent = before), 1200);
};
const saveImage = async () => {
  const image = new Image();
  image.src = URL.createObjectURL(new Blob([drawn], { type: "image/svg+xml" }));
  await image.decode();
  const canvas = node("canvas");
  [canvas.width, canvas.height] = [2 * image.naturalWidth, 2 * image.naturalHeight];
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  canvas.toBlob((blob) => {
    const link = node("a");
    link.href = URL.createObjectURL(blob);
    link.download = `${document.title}.png`;
    link.click();
  });
};

// #part=A, #part=layers.3, #part=layers.0.attention.q_proj; #part=2.A of the second column; #step=4
const fromAddress = () => {
  const address = new URLSearchParams(location.hash.slice(1));
  if (address.has("step") && steps.length) {
    place = Number(address.get("step")) - 1 || 0;
    walk(true);
  }
  const [, column, name] = /^(?:(\d+)\.)?(.*)$/.exec(address.get("part") ?? "");
  if (!name) return;
  const escaped = CSS.escape(name);
  const [found] = ["part", "kind", "path"].flatMap((kind) => inColumn(Number(column ?? 1) - 1, `[data-${kind}="${escaped}"]`));
  if (found) show(found);
};
const toAddress = (element) => {
  const { part, kind } = partOf(element)?.dataset ?? {};
  const path = element.closest("[data-path]")?.dataset.path || part || kind;
  const column = columnOf(element);
  if (path) history.replaceState(null, "", `#part=${column ? `${column + 1}.` : ""}${path}`);
};

const close = () => {
  if (byId("find").value) {
    byId("find").value = "";
    find();
  } else if (!byId("walk").hidden) walk(false);
  else tell(null);
};
const SHORTCUTS = {
  "/": () => byId("find").focus(),
  "?": () => byId("keys").showModal(),
  f: foldAll,
  t: () => walk(byId("walk").hidden),
};
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("keys").open) return;
  const { key, target } = event;
  const inDrawing = target === stop;
  if (target.id === "find" && key === "Enter") goTo(event.shiftKey ? -1 : 1);
  else if (key === "Escape") close();
  else if (target.id === "find") return;
  else if (inDrawing && DIRECTIONS[key]) move(key);
  else if (inDrawing && key === "Enter") copyTold();
  else if (!byId("walk").hidden && (key === "ArrowRight" || key === "ArrowLeft")) showStep(place + DIRECTIONS[key]);
  else if (SHORTCUTS[key]) SHORTCUTS[key]();
  else return;
  event.preventDefault();
});

const copyTold = () => byId("command").textContent && copy(byId("command").textContent, byId("copy-command"));
svg.addEventListener("pointerover", (event) => {
  const element = meant(event.target);
  if (element && element !== svg) tell(element);
});
svg.addEventListener("click", (event) => {
  const element = meant(event.target);
  if (!element || element === svg) return;
  stand(element);
  tell(element);
  toAddress(element);
});
// not at the svg: one that listens for the focus is itself a stop of Tab
byId("drawing").addEventListener("focusin", (event) => event.target === stop && tell(stop));
byId("copy-command").addEventListener("click", copyTold);
byId("find").addEventListener("input", find);
byId("fold").addEventListener("click", foldAll);
byId("follow").addEventListener("click", () => walk(byId("walk").hidden));
byId("back").addEventListener("click", () => showStep(place - 1));
byId("next").addEventListener("click", () => showStep(place + 1));
byId("copy").addEventListener("click", () => copy(drawn, byId("copy")));
byId("save").addEventListener("click", saveImage);
byId("help").addEventListener("click", () => byId("keys").showModal());
addEventListener("hashchange", fromAddress);
svg.append(marks);
svg.setAttribute("role", "group");
svg.setAttribute("aria-label", titleOf(svg));
byId("bar").hidden = false;
byId("follow").hidden = !steps.length;
if (stops.length) stand(stops[0]);
fromAddress();

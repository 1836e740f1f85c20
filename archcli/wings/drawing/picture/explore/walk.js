// One token: the steps of the passes that it needs, and what runs of the drawing at each.
const steps = data.stages.flatMap((stage) => stage.steps.map((step) => ({ ...step, stage })));
const AMOUNTS = ["parameters read", "FLOPs", "cache written", "cache read"];
let place = -1;

const grouped = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, ",");
const sized = (shape) => `[${shape.map(grouped).join(", ")}]`;
const row = (name, text, ...below) => node("div", "", node("dt", name), node("dd", text, ...below));
// an amount in short, and below it with all digits
const amountRow = (name, [exact, short]) => {
  const digits = grouped(exact);
  const line = row(name, short, ...(short === digits ? [] : [node("span", digits)]));
  line.lastChild.dataset.value = exact;
  return line;
};
const commandLine = (text) => {
  const command = `archcli ${text.replace("{}", data.models[0])} --json`;
  const button = node("button", "Copy");
  button.type = "button";
  button.ariaLabel = `Copy ${command}`;
  button.addEventListener("click", () => copy(command, button));
  return node("p", "", node("code", command), button);
};

// of the drawing: what is framed at a step, and what is not faded
const running = ({ stage, kind, end, letter }) => {
  if (!kind) return [[], []];
  const named = (attribute, value) => inColumn(stage.column, `[data-${attribute}="${CSS.escape(value)}"]`);
  if (end) {
    const framed = named("stack", kind).filter((group) => group.dataset.end === end);
    return [framed, framed];
  }
  const parts = (of) => named("part", of);
  const inside = stage.steps.filter((step) => step.kind === kind && step.letter).flatMap((step) => parts(step.letter));
  const layers = [...named("of", kind), ...named("kind", kind)];
  return letter ? [parts(letter), [...layers, ...parts(letter)]] : [named("kind", kind), [...layers, ...inside]];
};
const showRunning = (step) => {
  const [framed, lit] = running(step);
  for (const group of svg.querySelectorAll(".runs")) group.classList.remove("runs");
  for (const group of lit) group.classList.add("runs");
  svg.classList.toggle("walking", lit.length > 0);
  framed.forEach(unfold);
  mark("run", framed);
  framed[0]?.scrollIntoView({ block: "nearest", inline: "nearest" });
};

const showStep = (wanted) => {
  place = Math.max(0, Math.min(wanted, steps.length - 1));
  const step = steps[place];
  const { stage, title, letter, times, entered, left, experts, amounts } = step;
  byId("stage").textContent = stage.title;
  byId("step").textContent = letter ? `${letter}: ${title}` : title;
  const facts = [
    ...(entered ? [row("in", sized(entered)), row("out", sized(left))] : []),
    ...(times > 1 ? [row("one of", `${grouped(times)} layers`)] : []),
    ...(experts ? [row("experts", experts.map(grouped).join(" of "))] : []),
  ];
  const counted = AMOUNTS.map((name, i) => amountRow(name, amounts[i])).filter((_, i) => i < 2 || amounts[i][0] !== "0");
  byId("facts").replaceChildren(...facts, ...counted);
  byId("place").textContent = `${place + 1} of ${steps.length}`;
  byId("back").disabled = place === 0;
  byId("next").disabled = place === steps.length - 1;
  byId("commands").replaceChildren(...stage.commands.map(commandLine));
  showRunning(step);
  history.replaceState(null, "", `#step=${place + 1}`);
};
const walk = (open) => {
  if (!steps.length) return;
  byId("walk").hidden = !open;
  byId("follow").setAttribute("aria-expanded", String(open));
  if (open) {
    showStep(Math.max(place, 0));
    byId("walk").focus({ preventScroll: true });
    return;
  }
  showRunning({});
  history.replaceState(null, "", location.pathname + location.search);
  byId("follow").focus();
};

// How the model runs: engine, format and context of the answers of `archcli fit`, which the page was made with.
const RUNS = [
  { key: "engine", label: "Engine", usual: "as is usual", option: "--engine" },
  { key: "weights", label: "Weights in", usual: "the largest format that fits", option: "--dtype" },
  { key: "tokens", label: "Context that must fit", usual: "as much as fits", option: "--context" },
];

class Runs {
  constructor(data) {
    this.data = data;
    const keys = data.speeds.flatMap((row) => Object.keys(row.answers).map((key) => key.split("|")));
    this.choices = RUNS.map((run, i) => {
      const names = [...new Set(keys.map((key) => key[i]))].filter(Boolean);
      const usual = run.key === "engine" && data.engine ? data.engine : run.usual;
      return this.choice(run, [["", usual], ...names.map((name) => [name, run.key === "tokens" ? `${exact(name)} tokens` : name])]);
    });
    const devices = [...new Set(data.speeds.map((row) => row.device))];
    this.device = this.choice({ key: "device", label: "Device" }, [["", "all of the page"], ...devices.map((name) => [name, name])]);
    this.all = [this.device, ...this.choices];
    if (!data.speeds.length) return;
    const fields = node("div", { class: "fields" }, ...this.all.map((one) => one.box));
    byId("runs").append(node("details", { class: "group", open: "" }, node("summary", {}, "Where it runs"), fields));
  }

  choice(run, names) {
    const id = `input-${run.key}`;
    const input = node("select", { id }, ...names.map(([value, text]) => node("option", { value }, text)));
    return { ...run, input, box: node("div", { class: "field" }, node("label", { for: id }, run.label), input) };
  }

  // the answer of each device that is chosen, for each model
  get rows() {
    const key = this.choices.map((one) => one.input.value).join("|");
    const shown = this.data.speeds.filter((row) => [row.device, ""].includes(this.device.input.value));
    return shown.map((row) => {
      const answer = row.answers[key] ?? row.answers[`${this.choices[0].input.value}||`];
      const it = Object.fromEntries(this.data.answer.map((name, i) => [name, answer[i]]));
      const rate = it.fits && it.floor !== null ? { floor: it.floor, expected: it.expected, low: it.low, high: it.high } : null;
      return { number: row.number, model: row.model, device: row.device, ...it, rate };
    });
  }

  // `archcli fit` of a model, as the fields have it
  commands(named) {
    const options = this.choices.map((one) => [one.option, one.input.value || (one.key === "engine" ? this.data.engine : "")]);
    const told = options.filter(([, value]) => value).map(([option, value]) => ` ${option} ${value}`).join("");
    return (number) => this.rows.filter((row) => row.number === number).map((row) => `archcli fit ${named} --device ${row.device}${told}`);
  }

  get words() {
    const weights = this.choices[1].input.value || "the largest format that fits";
    const lengths = [...new Set(this.rows.filter((row) => row.rate).map((row) => exact(row.speed_at)))];
    return `One sequence${lengths.length ? ` with ${lengths.join(" or ")} tokens in its cache` : ""}, weights in ${weights}.`;
  }
}

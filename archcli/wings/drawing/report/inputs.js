// The inputs: fields, what is wrong with them, and the question in the address.
const PASS = [
  { name: "context", label: "Context", unit: "tokens", least: 2n },
  { name: "batch_size", label: "Batch", unit: "sequences", least: 1n },
  { name: "seq_len", label: "Sequence", unit: "tokens, for FLOPs", least: 1n },
];
const DTYPE = "cache";

class Field {
  // key: its name in the address. size: {name, value, least, keys} of a model, or of the pass
  constructor(key, size, title, unit) {
    Object.assign(this, { key, size, usual: BigInt(size.value), least: BigInt(size.least) });
    const id = `input-${key.replaceAll(".", "-")}`;
    this.input = node("input", { id, inputmode: "numeric", autocomplete: "off", "aria-describedby": `${id}-note` });
    this.note = node("span", { id: `${id}-note`, class: "was" });
    this.box = node("div", { class: "field" }, node("label", { for: id }, title, " ", node("span", {}, unit)), this.input, this.note);
    this.write(this.usual);
  }

  // the number in the field; null where it is none that the size may have
  get value() {
    const number = wholeNumber(this.input.value);
    return number === null || number < this.least ? null : number;
  }

  get changed() {
    return this.value !== null && this.value !== this.usual;
  }

  write(number) {
    this.input.value = typeof number === "bigint" ? exact(number) : number;
  }

  // `wrong`: words on why the value is refused, empty where it is not
  mark(wrong) {
    const words = this.value === null ? `a whole number, at least ${exact(this.least)}` : wrong;
    if (words) this.input.setAttribute("aria-invalid", "true");
    else this.input.removeAttribute("aria-invalid");
    this.input.classList.toggle("changed", this.changed && !words);
    this.note.classList.toggle("wrong", Boolean(words));
    this.note.textContent = words || (this.changed ? `was ${exact(this.usual)}` : "");
  }
}

class Inputs {
  constructor(data, models) {
    this.models = models;
    this.pass = PASS.map((size) => new Field(size.name, { ...size, value: data.pass[size.name] }, size.label, size.unit));
    this.dtype = node("select", { id: "input-cache" }, ...data.dtypes.map((name) => node("option", { value: name }, name)));
    const choice = node("div", { class: "field" }, node("label", { for: "input-cache" }, "Cache in"), this.dtype);
    byId("pass").append(...this.pass.map((field) => field.box), choice);
    for (const model of models) {
      const lead = models.length > 1 ? `${model.number}.` : "";
      model.fields = model.sizes.map((size) => new Field(`${lead}${size.name}`, size, size.name, size.about));
      if (!model.fields.length) continue;
      const fields = node("div", { class: "fields" }, ...model.fields.map((field) => field.box));
      const title = models.length > 1 ? `What if, of ${model.name}` : "What if";
      const group = node("details", { class: "group" }, node("summary", {}, title), fields);
      group.open = models.length === 1;
      byId("what-if").append(group);
    }
    this.fields = [...this.pass, ...models.flatMap((model) => model.fields)];
    this.runs = new Runs(data);
    this.selects = [[DTYPE, this.dtype], ...this.runs.all.map((one) => [one.key, one.input])];
  }

  // the sizes of a model with what the fields say; null where a field holds none
  sizes(model) {
    const fields = [...this.pass, ...model.fields];
    if (fields.some((field) => field.value === null)) return null;
    const sizes = { ...model.values };
    for (const field of fields) sizes[field.size.name] = field.value;
    return sizes;
  }

  // the question as it stands in the address
  get address() {
    const told = this.fields.filter((field) => field.changed).map((field) => `${field.key}=${field.value}`);
    for (const [key, select] of this.selects) if (select.selectedIndex > 0) told.push(`${key}=${select.value}`);
    return told.join("&");
  }

  set address(text) {
    const asked = new Map(text.split("&").map((pair) => pair.split("=")));
    for (const field of this.fields) {
      const value = asked.get(field.key);
      const number = value === undefined ? null : wholeNumber(value);
      field.write(value === undefined ? field.usual : (number ?? value));
    }
    for (const [key, select] of this.selects) {
      select.selectedIndex = Math.max([...select.options].findIndex((option) => option.value === asked.get(key)), 0);
    }
  }

  reset() {
    this.address = "";
  }

  get isUsual() {
    return this.address === "" && this.fields.every((field) => field.value !== null);
  }
}

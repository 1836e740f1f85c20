// The models of the page: their figures at any sizes, by the closed forms in SCRIPTS.
class ModelFigures {
  constructor(record, script) {
    Object.assign(this, record, { script });
    this.values = Object.fromEntries(Object.entries(record.values).map(([name, value]) => [name, BigInt(value)]));
  }

  // a function of the number of a form: its value at these sizes
  at(sizes) {
    const s = stepped(this.script, sizes);
    return (place) => (place === undefined || place < 0 ? null : this.script.forms[place](s));
  }

  // what these sizes do not meet, of what the loader asks for
  unmet(sizes) {
    const s = stepped(this.script, sizes);
    const unmet = this.needs.filter((_, i) => !this.script.needs[i](s));
    return unmet.map((need) => ({ ...need, text: inWords(need, sizes) }));
  }

  // key figures by name; those that the model does not have are null
  headline(sizes, dtype) {
    const value = this.at(sizes);
    const { params, active, flops, decode } = this.figures;
    const places = { params, active, cache: this.figures[`cache ${dtype}`], flops, decode };
    return Object.fromEntries(Object.entries(places).map(([name, place]) => [name, value(place)]));
  }

  overrides(fields) {
    return [...this.sets, ...fields.filter((field) => field.changed).flatMap((field) => field.size.keys.map((key) => `${key}=${field.value}`))];
  }
}

// as the commands say it: n_kv_heads 7 does not divide n_heads 32
const inWords = ({ text, divides }, sizes) => {
  if (!divides) return text;
  const [over, under] = divides.map((name) => `${name} ${sizes[name]}`);
  return `${under} does not divide ${over}`;
};
const asSet = (texts) => texts.map((text) => ` --set ${text}`).join("");

// the commands whose figures the page shows, for what the inputs say
const commandsOf = (model, inputs) => {
  const [context, batch, sequence] = inputs.pass.map((field) => field.value ?? field.usual);
  const sets = asSet(model.overrides(model.fields));
  const many = batch === 1n ? "" : ` -b ${batch}`;
  const kept = inputs.dtype.selectedIndex ? ` --dtype ${inputs.dtype.value}` : "";
  const named = `${model.asked}${sets}`;
  const cached = model.figures.elements === undefined ? [] : [
    `archcli kvcache ${named} --context ${context}${many}${kept}`,
    `archcli flops ${named} --phase decode --past ${context - 1n}${many}`,
  ];
  return [`archcli params ${named}`, `archcli flops ${named} -s ${sequence}${many}`, ...cached, `archcli show ${named}`, `archcli explain ${named}`, `archcli check ${named}`, ...inputs.runs.commands(`${model.asked}${asSet(model.sets)}`)(model.number)];
};

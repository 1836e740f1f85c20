/* The tabs and the form of each: a field for every option, its help below it. */

import { node, sentence } from "./markdown.js";
import { valueOf } from "./questions.js";
import { byId } from "./status.js";

const showTabs = (id) => {
  for (const button of byId("tabs").children) {
    const chosen = button.dataset.tab === id;
    button.setAttribute("aria-selected", chosen);
    button.tabIndex = chosen ? 0 : -1;
    if (chosen) byId("panel").setAttribute("aria-labelledby", button.id);
  }
};

/* Tabs as the ARIA pattern has them: arrow keys move the focus, Enter opens. */
export const makeTabs = (tabs, open) => {
  const buttons = tabs.map(({ id, title }) => {
    const button = node("button", { type: "button", role: "tab", id: `tab-${id}`, "aria-controls": "panel" }, title);
    button.dataset.tab = id;
    button.addEventListener("click", () => open(id));
    return button;
  });
  byId("tabs").replaceChildren(...buttons);
  byId("tabs").addEventListener("keydown", (event) => {
    const at = buttons.indexOf(document.activeElement);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: buttons.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    buttons.at(to % buttons.length).focus();
  });
};

/* The form of a tab with the values given; `change` gets the name and value of an option that is changed. */
export const showForm = (tab, values, change) => {
  const made = (option) => field(option, valueOf(option, values), change);
  showTabs(tab.id);
  byId("about").textContent = tab.about;
  byId("first").replaceChildren(...tab.first.map(made));
  byId("more").replaceChildren(...tab.more.map(made));
  byId("more-options").hidden = !tab.more.length;
  byId("more-options").open = tab.more.some((option) => valueOf(option, values));
};

/* The control of an option; its help stands below it. */
const field = (option, value, change) => {
  const id = `option-${option.name}`;
  const control = makeControl(option, id, value);
  control.addEventListener("change", () => change(option.name, option.switch ? control.checked : control.value));
  const flag = option.flag ? node("code", {}, option.flag) : "";
  const label = node("label", { for: id }, option.label, " ", flag);
  const help = node("p", { class: "help", id: `${id}-help` }, ...sentence(option.help));
  return node("div", { class: option.switch ? "field switch" : "field" }, label, control, help);
};

const makeControl = (option, id, value) => {
  const shared = { id, "aria-describedby": `${id}-help` };
  if (option.switch) {
    const box = node("input", { type: "checkbox", ...shared });
    box.checked = value;
    return box;
  }
  if (option.choices.length) {
    const usual = node("option", { value: "" }, option.default ? `default: ${option.default}` : "–");
    const select = node("select", shared, usual, ...option.choices.map((word) => node("option", { value: word }, word)));
    select.value = value;
    return select;
  }
  const list = option.list || null;
  const input = node("input", { ...shared, type: "text", list, placeholder: option.default || null, autocomplete: "off", spellcheck: "false" });
  input.value = value;
  return input;
};

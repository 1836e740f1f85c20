/* The gallery: filters and an order for its cards, and two drawings beside each other. Without it the page has all cards. */

const element = (name, values = {}, ...inside) => {
  const made = Object.assign(document.createElement(name), values);
  made.append(...inside);
  return made;
};

const chooser = (label, options, change) => {
  const select = element("select", {}, ...options.map((text) => element("option", { value: text, textContent: text })));
  select.addEventListener("change", change);
  return [select, element("label", {}, `${label} `, select)];
};

const KEYS = ["kind", "size", "year", "company"];
const ORDERS = {
  name: (a, b) => a.dataset.name.localeCompare(b.dataset.name),
  "newest first": (a, b) => b.dataset.released.localeCompare(a.dataset.released),
  "largest first": (a, b) => b.dataset.params - a.dataset.params,
};

const filterCards = (place) => {
  const cards = [...document.querySelectorAll(".models > li")];
  const selects = {};
  const count = element("p", { role: "status" });
  const named = element("input", { type: "search", ariaLabel: "Name" });
  const show = () => {
    const fits = (card) =>
      card.dataset.name.includes(named.value.toLowerCase()) &&
      KEYS.every((key) => selects[key].selectedIndex === 0 || card.dataset[key] === selects[key].value);
    cards.forEach((card) => (card.hidden = !fits(card)));
    [...cards].sort(ORDERS[selects.order.value]).forEach((card) => card.parentNode.append(card));
    for (const list of document.querySelectorAll(".models")) {
      const empty = !list.querySelector("li:not([hidden])");
      const meaning = list.previousElementSibling;
      for (const part of [list, meaning, meaning.previousElementSibling]) part.hidden = empty;
    }
    count.textContent = `${cards.filter((card) => !card.hidden).length} of ${cards.length} models`;
  };
  named.addEventListener("input", show);
  const labels = KEYS.map((key) => {
    const values = [...new Set(cards.map((card) => card.dataset[key]))];
    if (key !== "kind") values.sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
    const [select, label] = chooser(key, [`any ${key}`, ...values], show);
    selects[key] = select;
    return label;
  });
  const [order, label] = chooser("order", Object.keys(ORDERS), show);
  selects.order = order;
  place.append(element("label", {}, "name ", named), ...labels, label, count);
  pickTwo(cards, place);
  show();
};

/* A box on each card; two that are ticked have a link to their drawings side by side. */
const pickTwo = (cards, place) => {
  const link = element("a", { className: "both", hidden: true });
  let picked = [];
  for (const card of cards) {
    const box = element("input", { type: "checkbox" });
    box.addEventListener("change", () => {
      picked = picked.filter((other) => other !== box);
      if (box.checked) picked.push(box);
      if (picked.length > 2) picked.shift().checked = false;
      const names = picked.map((other) => other.closest("li").dataset.name);
      link.hidden = names.length < 2;
      link.href = `compare/#${names.join(",")}`;
      link.textContent = `${names.join(" beside ")} →`;
    });
    card.append(element("label", {}, box, " compare"));
  }
  place.append(link);
};

const showTwo = (place) => {
  const names = JSON.parse(document.getElementById("names").textContent);
  const named = decodeURIComponent(location.hash.slice(1)).split(",").filter((name) => names.includes(name));
  const others = ["llama-3.1-8b", "qwen3-8b"].filter((name) => !named.includes(name));
  const chosen = [...named, ...others].slice(0, 2);
  const command = element("code");
  const columns = chosen.map((name, at) => {
    const image = element("img");
    const page = element("a");
    const [select, label] = chooser(at ? "beside" : "model", names, () => show());
    select.value = name;
    return { select, image, page, whole: element("div", {}, label, page, image) };
  });
  const show = () => {
    for (const { select, image, page } of columns) {
      image.src = `../${select.value}.svg`;
      image.alt = `${select.value} to scale`;
      page.href = `../${select.value}/`;
      page.textContent = "figures and source";
    }
    const both = columns.map(({ select }) => select.value);
    command.textContent = `archcli compare ${both.join(" ")}`;
    history.replaceState(null, "", `#${both.join(",")}`);
  };
  place.replaceChildren(element("p", {}, command), element("div", { className: "two" }, ...columns.map((c) => c.whole)));
  show();
};

const filters = document.getElementById("filters");
if (filters) filterCards(filters);
const two = document.getElementById("two");
if (two) showTwo(two);

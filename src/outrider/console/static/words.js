// All that the pages say, from en.json. An element names its text by `data-words`, and what its label, title and
// placeholder are by `data-label`, `data-title` and `data-placeholder`.

const ALL = await (await fetch(new URL("en.json", import.meta.url))).json();
const ATTRIBUTES = { label: "aria-label", title: "title", placeholder: "placeholder" };

// The text of a name, with `values` in the places {so}; a name without a text says itself.
export const words = (name, values = {}) => (ALL[name] ?? name).replaceAll(/\{(\w+)\}/g, (_, key) => values[key]);

// The texts of a name that has several.
export const list = (name) => ALL[name];

for (const element of document.querySelectorAll("[data-words]")) element.textContent = words(element.dataset.words);
for (const [name, attribute] of Object.entries(ATTRIBUTES)) {
  for (const element of document.querySelectorAll(`[data-${name}]`)) {
    element.setAttribute(attribute, words(element.dataset[name]));
  }
}

// The texts of the running page, from en.json. The console has already inserted the page's initial texts.

const ALL = await (await fetch(new URL("en.json", import.meta.url))).json();

// Returns the text of a name, with `values` in place of {keys}. A name without a text is its own text.
export const words = (name, values = {}) => (ALL[name] ?? name).replaceAll(/\{(\w+)\}/g, (_, key) => values[key]);

// Returns the texts of a name that has several.
export const list = (name) => ALL[name];

// What the page says while it runs, from en.json. What it says from the beginning, the console has put into it.

const ALL = await (await fetch(new URL("en.json", import.meta.url))).json();

// The text of a name, with `values` in the places {so}; a name without a text says itself.
export const words = (name, values = {}) => (ALL[name] ?? name).replaceAll(/\{(\w+)\}/g, (_, key) => values[key]);

// The texts of a name that has several.
export const list = (name) => ALL[name];

// The browser's storage for this page. It may be disabled or full: then nothing is stored.

export function recall(storage, name) {
  try {
    return window[storage].getItem(name) ?? "";
  } catch {
    return "";
  }
}

export function keep(storage, name, value) {
  try {
    window[storage].setItem(name, value);
  } catch {
    // The value is then valid only while the page is open.
  }
}

// Returns a stored list of texts; an empty one if the stored value is not a list.
export function recallTexts(storage, name) {
  try {
    const kept = JSON.parse(recall(storage, name));
    return Array.isArray(kept) ? kept.filter((one) => typeof one === "string") : [];
  } catch {
    return [];
  }
}

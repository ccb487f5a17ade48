// What the browser keeps for this page, where it keeps anything: it may be told to keep nothing, and be full.

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
    // It then holds as long as the page is open.
  }
}

// A list of texts, whatever another program has written there.
export function recallTexts(storage, name) {
  try {
    const kept = JSON.parse(recall(storage, name));
    return Array.isArray(kept) ? kept.filter((one) => typeof one === "string") : [];
  } catch {
    return [];
  }
}

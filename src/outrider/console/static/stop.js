// The emergency stop, by itself: it needs no other script, no text and no storage. Until it is here, the button's own
// form stops. What it says stands in the page already, hidden.

(() => {
  const HEARD_MS = 300;
  const ANSWER_MS = 2000;
  const RETRY_MS = 500;
  // `link`, once the page has one: its `sendStop()` and `stopHeard`.
  const shared = (window.outrider ??= {});
  if (shared.engage) return;

  const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  let presses = 0;
  let posting = false;

  function sentBySocket() {
    try {
      return shared.link.sendStop();
    } catch {
      return false;
    }
  }

  const isHeard = () => shared.link?.stopHeard === true;

  async function posted() {
    const patience = new AbortController();
    const timer = setTimeout(() => patience.abort(), ANSWER_MS);
    try {
      return (await fetch("e_stop", { method: "POST", redirect: "error", signal: patience.signal })).ok;
    } catch {
      return false;
    } finally {
      clearTimeout(timer);
    }
  }

  function show(id, isShown) {
    const element = document.getElementById(id);
    if (element) element.hidden = !isShown;
  }

  // Until it is heard, by this way or by a connection that has come back. What was on its way before the newest press
  // is no answer to it: somebody may have released the stop in between.
  async function post() {
    posting = true;
    show("stop-heard", false);
    for (let answered = 0; answered < presses && !isHeard();) {
      const asked = presses;
      const isTaken = await posted();
      if (isTaken) answered = asked;
      show("stop-unsent", !isTaken && !isHeard());
      if (!isTaken) await pause(RETRY_MS);
    }
    posting = false;
    show("stop-unsent", false);
    show("stop-heard", !isHeard());
  }

  // By both ways, unless the robot's own news soon say that it is engaged: a socket that looks open may lead
  // nowhere, here or behind a relay.
  shared.engage = async () => {
    presses += 1;
    if (sentBySocket()) await pause(HEARD_MS);
    if (!posting && !isHeard()) await post();
  };

  document.addEventListener("pointerdown", (event) => {
    if (!event.target.closest?.("#e-stop")) return;
    event.preventDefault();
    shared.engage();
  }, true);
  document.addEventListener("submit", (event) => {
    if (event.target.id !== "stop") return;
    event.preventDefault();
    shared.engage();
  }, true);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" || event.code === "Escape") shared.engage();
  }, true);
})();

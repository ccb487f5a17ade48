// The emergency stop. It needs no other script, text file or storage. Until this script has loaded, the button's form
// sends the stop. Its messages are already in the page, hidden.

(() => {
  const HEARD_MS = 300;
  const ANSWER_MS = 2000;
  const RETRY_MS = 500;
  // `shared.link` is set once the page has a connection; this script uses its `sendStop()` and `stopHeard`.
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

  // Posts the stop until a request succeeds or the robot's state reports the stop. A request that was sent before the
  // newest press does not count: somebody may have released the stop in between.
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

  // Sends the stop over the socket. Posts it as well unless the robot's state soon reports the stop: a socket that
  // looks open may be dead, here or behind a relay.
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

// Selects the emulated link, by its name or by its round trip (from a LAN's to a satellite's), and the strategy.

import { words } from "./words.js";

export class Switches {
  // `parts`: link, slider, value, strategy, and emulated (hidden if no link is emulated).
  constructor(link, box, parts) {
    Object.assign(this, { box, ...parts });
    this.limits = [1, 600];
    const ask = (message) => link.send({ do: "switch", ...message }) || this.restore();
    this.link.addEventListener("change", () => ask({ link: this.link.value }));
    this.slider.addEventListener("input", () => this.say(this.roundTrip));
    this.slider.addEventListener("change", () => ask({ rtt_ms: this.roundTrip }));
    this.strategy.addEventListener("change", () => ask({ strategy: this.strategy.value }));
  }

  // The slider's scale is logarithmic.
  get roundTrip() {
    const [least, most] = this.limits;
    const ms = least * (most / least) ** (this.slider.valueAsNumber / this.slider.max);
    return Math.min(most, Math.max(least, Number(ms.toPrecision(2))));
  }

  // Shows the settings in force, which may differ from the person's latest choice.
  show(told) {
    this.told = told;
    this.box.hidden = !told.strategy;
    this.emulated.hidden = !told.link;
    this.limits = told.rtt_limits_ms;
    choose(this.link, told.links, told.link);
    choose(this.strategy, told.strategies, told.strategy);
    const [least, most] = this.limits;
    const share = Math.log(Math.max(told.rtt_ms, least) / least) / Math.log(most / least);
    this.slider.value = share * this.slider.max;
    this.say(told.rtt_ms);
  }

  // Shows the settings in force again after a request that could not be sent.
  restore() {
    if (this.told) this.show(this.told);
  }

  say(ms) {
    this.value.textContent = words("unit.ms", { n: Number(ms.toPrecision(3)) });
    this.slider.setAttribute("aria-valuetext", this.value.textContent);
  }
}

// Fills a list. A name in force that is not among the choices is shown too, such as a link from a person's own file.
function choose(select, names, name) {
  const all = names.includes(name) ? names : [name, ...names];
  if (all.join() !== [...select.options].map((option) => option.value).join()) {
    select.replaceChildren(...all.map((one) => new Option(one, one)));
  }
  select.value = name;
}

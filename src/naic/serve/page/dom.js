// Elements without markup: what is data stays text.

export const $ = (id) => document.getElementById(id);

/** An element: make("p", {className: "quiet", id: "count"}, "text", otherElement). */
export function make(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key.includes("-") || key === "role") element.setAttribute(key, value);
    else element[key] = value;
  }
  element.append(...children);
  return element;
}

/** How sure: 0.713 is "71 %", what is less than half a percent "<1 %". */
export function percent(share) {
  const whole = Math.round(share * 100);
  return share > 0 && whole === 0 ? "<1 %" : `${whole} %`;
}

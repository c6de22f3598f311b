// Changes of all captions at once: how many there would be is said before they are made.

import { $ } from "./dom.js";
import { prefixed, replaced } from "./review-text.js";

const number = (count) => `${count} ${count === 1 ? "caption" : "captions"}`;

/**
 * The forms for a prefix and for a replacement.
 *
 * @param change(what, wanted) makes a step of it.
 * @param say tells what was done.
 * @returns {update}, to be called when captions are others.
 */
export function createChanges(review, change, say) {
  const forms = [
    {
      form: $("review-prefix"),
      made: ({ prefix }) => (text) => prefixed(text, prefix.value),
      wanted: ({ prefix }) => prefix.value.trim() !== "",
      what: ({ prefix }) => `the prefix “${prefix.value.trim()}”`,
    },
    {
      form: $("review-replace"),
      made: ({ find, by, words }) => (text) => replaced(text, find.value, by.value, words.checked),
      wanted: ({ find }) => find.value !== "",
      what: ({ find, by }) => `“${find.value}” replaced by “${by.value}”`,
    },
  ];

  function preview({ form, made, wanted }) {
    const [output, button] = [form.querySelector("output"), form.querySelector("button")];
    const asked = wanted(form.elements);
    const pairs = asked ? review.all(made(form.elements)) : [];
    button.disabled = pairs.length === 0;
    if (!asked) output.textContent = "";
    else if (!pairs.length) output.textContent = "Would change no caption.";
    else output.textContent = `Would change ${number(pairs.length)}, such as “${pairs[0][1].text}”.`;
    return pairs;
  }

  for (const each of forms) {
    each.form.oninput = () => preview(each);
    each.form.onsubmit = (event) => {
      event.preventDefault();
      const what = each.what(each.form.elements);
      const count = change(what, preview(each));
      if (count) say(`Changed ${number(count)}: ${what}.`);
    };
  }
  return {
    update() {
      if ($("review-all").open) forms.forEach(preview);
    },
  };
}

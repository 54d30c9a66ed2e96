// Makes elements. Data becomes text nodes and attributes only, never markup: what minions and events say may be hostile.

/**
 * An element with attributes and children. An attribute that is `null`, `undefined` or `false` is left out, `true` is an empty one;
 * `on…` takes a listener. Children are nodes, texts, or lists of these.
 */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) made.addEventListener(name.slice(2), value);
    else if (name === 'value') made.value = value;
    else made.setAttribute(name, value === true ? '' : text(value));
  }
  append(made, children);
  return made;
}

/** Whatever it is as text: minions may send objects in the place of texts. */
export function text(value) {
  return value !== null && typeof value === 'object' ? JSON.stringify(value) : String(value);
}

/** Adds children to an element. */
export function append(parent, children) {
  for (const child of [children].flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(child instanceof Node ? child : text(child));
  }
  return parent;
}

/** Puts other children into an element. */
export function fill(parent, ...children) {
  parent.replaceChildren();
  return append(parent, children);
}

let last = 0;

/** An id that no other element of the page has. */
export function freshId(name = 'e') {
  last += 1;
  return `${name}-${last}`;
}

/** A label above an input, with a hint below it. */
export function field(label, input, hint) {
  const id = input.id || freshId('field');
  input.id = id;
  const parts = [element('label', { for: id }, label), input];
  if (hint) {
    const said = hint instanceof Node ? hint : element('p', { class: 'hint' }, hint);
    said.id ||= `${id}-hint`;
    input.setAttribute('aria-describedby', said.id);
    parts.push(said);
  }
  return element('div', { class: 'field' }, parts);
}

/** A choice of one among `[value, text]`. */
export function choice(options, chosen, attributes = {}) {
  const made = element('select', attributes,
    options.map(([value, text]) => element('option', { value, selected: value === chosen }, text)));
  made.value = chosen;
  return made;
}

/** A button that does something. */
export function button(text, onclick, kind = '') {
  return element('button', { type: 'button', class: kind || null, onclick }, text);
}

/** Calls `act` once `wait` milliseconds have gone by without another call. */
export function later(act, wait = 300) {
  let timer = 0;
  const call = (...all) => {
    clearTimeout(timer);
    timer = setTimeout(() => act(...all), wait);
  };
  call.cancel = () => clearTimeout(timer);
  return call;
}

/** A table of texts or nodes with a caption. */
export function table(caption, heads, rows, kind = '') {
  return element('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': caption },
    element('table', { class: kind || null },
      element('caption', {}, caption),
      element('thead', {}, element('tr', {}, heads.map((head) => element('th', { scope: 'col' }, head)))),
      element('tbody', {}, rows.map((cells) => element('tr', {},
        cells.map((cell, at) => (at === 0 ? element('th', { scope: 'row' }, cell) : element('td', {}, cell))))))));
}

/** A fingerprint, which may only be broken between its bytes. */
export function fingerprint(text) {
  return String(text).split(/(?<=:)/).flatMap((part) => [part, element('wbr')]);
}

/** What is said in the place of an empty list: what it means, and what to do. */
export function empty(title, advice) {
  return element('div', { class: 'empty' }, element('p', { class: 'title' }, title), advice ? element('p', {}, advice) : null);
}

// A list of any length of which only the visible rows are in the page: a grid with one stop for the Tab key, in which arrows move.

import { append, element, freshId } from './dom.js';

/** Rows above and below those that can be seen. */
const SPARE = 6;
const NARROW = matchMedia('(max-width: 40rem)');

export class List {
  /**
   * `columns`: `{title, cell(row), kind}`. `onOpen(row)` is called by Enter or a click. With `onSelect`, the space bar and a click into
   * the first column choose rows; it gets the set of chosen keys. `onVisible(rows)` is called with what has come into sight. `height` of
   * a row is in `rem`; with `narrow`, cells lie below one another on a narrow screen, in rows of that height.
   */
  constructor({ label, columns, key, onOpen, onSelect, onVisible, height = 2.5, narrow, most }) {
    Object.assign(this, { columns, key, onOpen, onSelect, onVisible, height, narrow });
    this.rows = [];
    this.selected = new Set();
    this.active = 0;
    this.name = freshId('list');
    this.space = element('div', { class: 'space', role: 'rowgroup' });
    const heads = columns.map((column, at) =>
      element('span', { role: 'columnheader', class: column.kind, 'aria-colindex': at + 1 }, column.title));
    this.head = element('div', { role: 'rowgroup', class: 'head' },
      element('div', { role: 'row', class: 'line', 'aria-rowindex': '1' }, heads));
    this.element = element('div', {
      class: narrow ? 'list stacked' : 'list', role: 'grid', tabindex: '0', 'aria-label': label, 'aria-colcount': columns.length,
      'aria-multiselectable': onSelect ? 'true' : null,
      onscroll: () => this.draw(),
      onkeydown: (event) => this.press(event),
      onclick: (event) => this.click(event),
      onfocus: () => this.mark(),
    }, this.head, this.space);
    if (most) this.element.style.maxHeight = most;
    this.element.style.setProperty('--columns', columns.map((column) => column.width ?? '1fr').join(' '));
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  /** Height of a row in pixels: it grows with the text size of the reader. */
  pixels() {
    const height = this.narrow && NARROW.matches ? this.narrow : this.height;
    return height * parseFloat(getComputedStyle(document.documentElement).fontSize);
  }

  /** Shows other rows; the active one stays the same row if it is still there. */
  show(rows) {
    const before = this.rows[this.active];
    const size = this.pixels();
    const top = Math.floor(this.element.scrollTop / size);
    const find = (wanted) => (wanted === undefined ? -1 : rows.findIndex((row) => this.key(row) === this.key(wanted)));
    // What somebody is reading stays where it is when rows come in above it.
    const moved = top > 0 ? find(this.rows[top]) - top : 0;
    this.rows = rows;
    this.space.style.height = `${rows.length * size}px`;
    if (moved > 0) this.element.scrollTop += moved * size;
    const at = before === undefined ? 0 : find(before);
    this.active = at >= 0 ? at : Math.max(0, Math.min(this.active, rows.length - 1));
    this.draw();
  }

  draw() {
    const size = this.pixels();
    this.element.setAttribute('aria-rowcount', this.rows.length + 1);
    this.space.style.height = `${this.rows.length * size}px`;
    const from = Math.max(0, Math.floor(this.element.scrollTop / size) - SPARE);
    const count = Math.ceil(this.element.clientHeight / size) + 2 * SPARE;
    const seen = this.rows.slice(from, from + count);
    this.space.replaceChildren(...seen.map((row, at) => this.line(row, from + at, size)));
    this.mark();
    this.onVisible?.(seen);
  }

  line(row, at, size) {
    const cells = this.columns.map((column, index) => append(
      element('span', { role: 'gridcell', class: column.kind, 'aria-colindex': index + 1 }), [column.cell(row)]));
    const chosen = this.onSelect ? String(this.selected.has(this.key(row))) : null;
    const made = element('div', {
      role: 'row', class: 'line', id: `${this.name}-${at}`, 'aria-rowindex': at + 2, 'aria-selected': chosen,
    }, cells);
    made.style.top = `${at * size}px`;
    made.style.height = `${size}px`;
    return made;
  }

  /** Tells assistive technology and the eye which row is the active one. */
  mark() {
    for (const line of this.space.children) line.classList.toggle('active', line.id === `${this.name}-${this.active}`);
    const id = `${this.name}-${this.active}`;
    if (this.rows.length && document.getElementById(id)) this.element.setAttribute('aria-activedescendant', id);
    else this.element.removeAttribute('aria-activedescendant');
  }

  move(to) {
    if (!this.rows.length) return;
    this.active = Math.max(0, Math.min(to, this.rows.length - 1));
    const size = this.pixels();
    const [top, head] = [this.active * size, this.head.offsetHeight];
    const room = this.element.clientHeight - head;
    if (top < this.element.scrollTop) this.element.scrollTop = top;
    else if (top + size > this.element.scrollTop + room) this.element.scrollTop = top + size - room;
    this.draw();
  }

  press(event) {
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.pixels()) - 2);
    const steps = {
      ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -this.rows.length, End: this.rows.length,
    };
    if (event.key in steps) this.move(this.active + steps[event.key]);
    else if (event.key === 'Enter' && this.rows[this.active] !== undefined) this.onOpen?.(this.rows[this.active]);
    else if (event.key === ' ' && this.onSelect) this.choose(this.active);
    else return;
    event.preventDefault();
  }

  click(event) {
    const line = event.target.closest('[role=row][id]');
    if (!line || event.target.closest('a, button')) return;
    this.active = Number(line.id.slice(this.name.length + 1));
    const isFirst = event.target.closest('[role=gridcell]')?.getAttribute('aria-colindex') === '1';
    if (this.onSelect && (isFirst || !this.onOpen)) this.choose(this.active);
    else {
      this.mark();
      this.onOpen?.(this.rows[this.active]);
    }
  }

  choose(at) {
    const row = this.rows[at];
    if (row === undefined) return;
    const key = this.key(row);
    if (!this.selected.delete(key)) this.selected.add(key);
    this.draw();
    this.onSelect(this.selected);
  }

  /** Forgets what was chosen. */
  clear() {
    this.selected.clear();
    this.draw();
    this.onSelect?.(this.selected);
  }
}

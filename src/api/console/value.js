// Values as the command line shows them (its outputter `nested`), as text in elements.

import { element } from './dom.js';

/** Longest text that is shown at once, in characters. */
const MOST = 200_000;
/** Most lines of it, and how deep values may lie in each other. */
const MOST_LINES = 20_000;
const DEEPEST = 100;

const collator = new Intl.Collator('en', { numeric: true });

/** The order of ids: web2 before web10. */
export const byId = collator.compare;

function scalar(value) {
  if (value === null || value === undefined) return 'None';
  if (value === true) return 'True';
  if (value === false) return 'False';
  return String(value);
}

/** Lines `[indent, mark, text, kind]` of a value. */
function lines(value, indent, mark, out, depth = 0) {
  if (out.length > MOST_LINES) return out;
  if (depth > DEEPEST) {
    out.push([indent, mark, '…', 'mark']);
    return out;
  }
  if (Array.isArray(value)) {
    for (const item of value) {
      if (item !== null && typeof item === 'object') {
        out.push([indent, '', '|_', 'mark']);
        lines(item, indent + 2, Array.isArray(item) ? '- ' : '', out, depth + 1);
      } else lines(item, indent, '- ', out, depth + 1);
    }
  } else if (value !== null && typeof value === 'object') {
    if (indent) out.push([indent, '', '----------', 'mark']);
    for (const key of Object.keys(value).sort()) {
      out.push([indent, mark, `${key}:`, 'key']);
      lines(value[key], indent + 4, '', out, depth + 1);
    }
  } else {
    let first = mark;
    for (const line of scalar(value).split('\n')) {
      out.push([indent, first, line, 'text']);
      first = ' '.repeat(mark.length);
    }
  }
  return out;
}

/** A value as text. */
export function plain(value) {
  return lines(value, 0, '', []).map(([indent, mark, text]) => ' '.repeat(indent) + mark + text).join('\n');
}

/** A value as an element. */
export function nested(value, label) {
  const made = element('pre', { class: 'value', tabindex: '0', role: label ? 'region' : null, 'aria-label': label });
  let size = 0;
  let count = 0;
  for (const [indent, mark, text, kind] of lines(value, 0, '', [])) {
    size += text.length + indent + 1;
    count += 1;
    if (size > MOST || count > MOST_LINES) {
      made.append('…');
      break;
    }
    const shown = `${' '.repeat(indent)}${mark}${text}\n`;
    made.append(kind === 'text' ? shown : element('span', { class: kind }, shown));
  }
  return made;
}

/** The beginning of a value on one line. */
export function brief(value, most = 160) {
  const text = typeof value === 'string' ? value.trim() : value !== null && typeof value === 'object' ? JSON.stringify(value) : scalar(value);
  const line = text.slice(0, most * 2).replace(/\s*\n\s*/g, ' ⏎ ');
  return line.length > most || text.length > most * 2 ? `${line.slice(0, most)}…` : line;
}

/** Lines with `-`, `+` and spaces, as an element. */
export function difference(pairs, label) {
  const made = element('pre', { class: 'diff', tabindex: '0', role: 'region', 'aria-label': label });
  for (const [sign, line] of pairs) {
    const text = `${sign}${sign === ' ' ? '' : ' '}${line}\n`;
    made.append(sign === '-' ? element('del', {}, text) : sign === '+' ? element('ins', {}, text) : sign === '@' ? element('span', { class: 'mark' }, text) : text);
  }
  return made;
}

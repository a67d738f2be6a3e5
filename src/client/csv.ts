/** One record of a CSV file. */
export interface CsvRecord {
  /** The line of the file where it begins, from 1. */
  line: number;
  fields: string[];
}

/**
 * Reads CSV (RFC 4180) with any kind of line ends. Fields are trimmed, and records with nothing in them are left out.
 *
 * @throws SyntaxError that names the line of an unclosed quote
 */
export function readCsv(text: string): CsvRecord[] {
  return new CsvReader(text).records();
}

/** For each possible separator, an unquoted field up to it or to the end of the line. */
const unquotedFields: [separator: string, field: RegExp][] = [
  [',', /[^,\r\n]*/y],
  [';', /[^;\r\n]*/y],
  ['\t', /[^\t\r\n]*/y],
];
const fieldUpToAnySeparator = /[^,;\t\r\n]*/y;

/** The separator is the one that the first line has most of; if it has none, any of them separates. */
function unquotedFieldOf(text: string): RegExp {
  const [firstLine = ''] = /^[^\r\n]*/.exec(text) ?? [];
  const unquoted = firstLine.replace(/"[^"]*"/g, '');
  const counts = unquotedFields.map(([separator]) => unquoted.split(separator).length - 1);
  const most = Math.max(...counts);
  return (most > 0 && unquotedFields[counts.indexOf(most)]?.[1]) || fieldUpToAnySeparator;
}

class CsvReader {
  readonly #text: string;
  readonly #unquotedField: RegExp;
  #at = 0;
  #line = 1;

  constructor(text: string) {
    this.#text = text;
    this.#unquotedField = unquotedFieldOf(text);
  }

  records(): CsvRecord[] {
    const records: CsvRecord[] = [];
    while (!this.#isAtEnd) {
      const record = this.#record();
      if (record.fields.some((field) => field !== '')) records.push(record);
    }
    return records;
  }

  /** Reads a record and the line end after it. */
  #record(): CsvRecord {
    const record = { line: this.#line, fields: [this.#field()] };
    while (!this.#isAtEnd && !this.#isAtLineEnd) {
      this.#at += 1;
      record.fields.push(this.#field());
    }
    this.#at += this.#text.startsWith('\r\n', this.#at) ? 2 : 1;
    this.#line += 1;
    return record;
  }

  get #isAtEnd(): boolean {
    return this.#at >= this.#text.length;
  }

  get #isAtLineEnd(): boolean {
    return this.#text[this.#at] === '\n' || this.#text[this.#at] === '\r';
  }

  /** Reads the field that begins here, up to its separator or line end. */
  #field(): string {
    while (this.#text[this.#at] === ' ') this.#at += 1;
    const begin = this.#at;
    const quoted = this.#text[begin] === '"' ? this.#quoted() : null;
    const rest = this.#unquoted().trim();
    if (quoted === null) return rest;
    const lineEnds = quoted.split(/\r\n|\r|\n/).length - 1;
    // Text after the quotes, as in `"Doe, John" <john@example.com>`. Over several lines, the quote was a stray one.
    if (rest !== '' && lineEnds > 0) throw this.#unclosed();
    this.#line += lineEnds;
    return rest === '' ? quoted.trim() : this.#text.slice(begin, this.#at).trim();
  }

  #unquoted(): string {
    this.#unquotedField.lastIndex = this.#at;
    const [text = ''] = this.#unquotedField.exec(this.#text) ?? [];
    this.#at += text.length;
    return text;
  }

  /** Reads from the opening quote to the closing one. */
  #quoted(): string {
    const begin = this.#at + 1;
    let end = this.#text.indexOf('"', begin);
    // Two quotes are an escaped one.
    while (end !== -1 && this.#text[end + 1] === '"') end = this.#text.indexOf('"', end + 2);
    if (end === -1) throw this.#unclosed();
    this.#at = end + 1;
    return this.#text.slice(begin, end).replaceAll('""', '"');
  }

  #unclosed(): SyntaxError {
    return new SyntaxError(`line ${this.#line}: a quote is opened there, and not closed`);
  }
}

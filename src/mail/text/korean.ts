import { TextDecoder } from 'node:util';

const firstLead = 0x81;
const firstTrail = 0x41;
const trails = 0xff - firstTrail;
const notKnown = 0xfffd;

/**
 * Decodes EUC-KR as the Encoding Standard defines it, which is Windows code page 949. Node's decoder lacks the 8,822 syllables
 * that the code page adds, such as the first of `똠방각하`, and turns each into a control character and a letter.
 */
export class KoreanDecoder {
  readonly #fatal: boolean;

  /** @param fatal whether invalid octets are an error; otherwise they become U+FFFD */
  constructor(fatal: boolean) {
    this.#fatal = fatal;
  }

  decode(octets: Uint8Array): string {
    const units = new Uint16Array(octets.length);
    let length = 0;
    for (let i = 0; i < octets.length; i++) {
      const lead = octets[i] ?? 0;
      const trail = octets[i + 1] ?? 0;
      const unit = lead < 0x80 ? lead : pairOf(lead, trail);
      if (unit === notKnown && this.#fatal) throw new TypeError('the octets are not of euc-kr');
      // ASCII after half of a character stands for itself.
      if (lead >= firstLead && (unit !== notKnown || trail >= 0x80)) i++;
      units[length++] = unit;
    }
    return Buffer.from(units.buffer, 0, 2 * length).toString('utf16le');
  }
}

let pairs: Uint16Array | null = null;

function pairOf(lead: number, trail: number): number {
  pairs ??= allPairs();
  const isPair = lead >= firstLead && lead < 0xff && trail >= firstTrail && trail < 0xff;
  return (isPair && pairs[indexOf(lead, trail)]) || notKnown;
}

const indexOf = (lead: number, trail: number) => (lead - firstLead) * trails + trail - firstTrail;

/** The character of every pair of octets, indexed by the first and then by the second. */
function allPairs(): Uint16Array {
  const all = new Uint16Array((0xff - firstLead) * trails);
  const standard = new TextDecoder('euc-kr');
  const known = new Set<number>();
  for (let lead = 0xa1; lead < 0xff; lead++)
    for (let trail = 0xa1; trail < 0xff; trail++) {
      const code = standard.decode(Uint8Array.of(lead, trail)).charCodeAt(0);
      all[indexOf(lead, trail)] = code;
      known.add(code);
    }
  // The other syllables follow in Unicode order, in the pairs whose first or second octet is too low for EUC-KR.
  let code = 0xac00;
  for (let lead = firstLead; lead <= 0xc6; lead++)
    for (let trail = firstTrail; trail < (lead < 0xa1 ? 0xff : 0xa1); trail++) {
      if ((trail > 0x5a && trail < 0x61) || (trail > 0x7a && trail < 0x81)) continue;
      while (known.has(code)) code++;
      if (code <= 0xd7a3) all[indexOf(lead, trail)] = code++;
    }
  all[indexOf(0xa2, 0xe6)] = 0x20ac;
  all[indexOf(0xa2, 0xe7)] = 0x00ae;
  return all;
}

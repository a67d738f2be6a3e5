/** Of the library, what is used here: it has no types of its own. */
declare module 'punycode.js' {
  const punycode: {
    /** @throws RangeError */
    decode(label: string): string;
  };
  export default punycode;
}
